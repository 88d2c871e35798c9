"""The whole installation, used from outside."""
