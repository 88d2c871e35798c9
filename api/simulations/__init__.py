"""Test mode: spends, follow-ups, force posts and loads, over the wire that a network would use."""
