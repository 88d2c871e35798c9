"""Programmes: configuration of cards, created and changed by their owner."""
