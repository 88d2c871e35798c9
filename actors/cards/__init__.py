"""Card actors: a card and its funding account in memory, the only writer of their state."""
