"""Builds the wheels: the launcher of the installed server, and the hook that completes its metadata."""
