"""Programmes: shared configuration of cards, created and changed by the programme's owner."""
