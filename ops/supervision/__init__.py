"""Runs an installation: its folder, its servers, the start-up sequence, restarts, and the log at the
terminal."""
