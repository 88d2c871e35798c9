"""Access to PostgreSQL: a pool that divides its connections between tenants."""
