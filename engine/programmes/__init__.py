"""The state of a programme in its owner's memory: its configuration, stand-in policy and exposure."""
