"""How an API server divides what it has between tenants."""
