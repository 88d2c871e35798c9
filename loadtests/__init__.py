"""Load and benchmarks: the system as its users and its operating system see it."""
