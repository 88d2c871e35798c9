"""Transactions: what became of each authorization, and its decision made again."""
