"""Cards: issued and changed by their owner, read from PostgreSQL; their numbers are stored sealed."""
