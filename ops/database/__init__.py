"""Changes of the database outside the API: migrations, the processes' role, the key check, API clients,
sealing."""
