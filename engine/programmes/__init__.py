"""What the owner of a programme holds in memory: its configuration, stand-in policy and exposure."""
