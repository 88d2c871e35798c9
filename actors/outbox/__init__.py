"""From a committed event to its deliveries: the relay writes them, the stream wakes the dispatchers."""
