"""Entry points: one command against one card or one programme."""
