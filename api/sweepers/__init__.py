"""Background work of an API server: finish what an interrupted request left."""
