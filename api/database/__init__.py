"""The way to PostgreSQL: a pool whose connections are shared out between tenants, and shared look-ups."""
