"""What a benchmark runs on: an installation of its own, the rivals beside it, and the meters."""
