"""Transfers between accounts and the funding sources of their programmes, and their reversals."""
