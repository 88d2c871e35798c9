"""Exports: transactions, ledger entries, decisions and stand-ins of a window of time, as one file."""
