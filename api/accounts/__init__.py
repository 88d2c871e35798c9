"""Accounts and their ledger entries: read from PostgreSQL; the balance of one card account from its owner."""
