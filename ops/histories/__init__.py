"""Histories: what clients asked and heard, and whether the journal tells the same story."""
