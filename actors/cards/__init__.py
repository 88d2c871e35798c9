"""Card actors: one card and its funding account in memory, the only writer of its state."""
