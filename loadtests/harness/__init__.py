"""The set-up of a benchmark: its own installation, the rivals beside it, and the meters."""
