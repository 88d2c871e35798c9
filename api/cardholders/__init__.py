"""Cardholders: create, read, change, block, erase."""
