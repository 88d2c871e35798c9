"""Shared by all operations: the route class, dependencies, idempotency, paging, commands to owners."""
