"""Running Stanchion: the command line, the embedded servers, migrations and the start-up sequence.

This package may use every other one; nothing imports it.
"""
