"""Transactions: state and history of each authorization, and replays of decisions."""
