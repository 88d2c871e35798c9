"""Users: the people of a tenant who sign in to the console."""
