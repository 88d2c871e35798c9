"""Entry points: execute one command on one card or one programme."""
