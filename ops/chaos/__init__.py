"""Chaos: the whole installation, real faults, and one table of what held."""
