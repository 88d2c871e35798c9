"""API clients of a tenant."""
