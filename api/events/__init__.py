"""Events: their log, their types, and writing one."""
