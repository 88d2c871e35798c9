"""The way of a committed event to its deliveries: the relay writes them, the stream wakes who sends them."""
