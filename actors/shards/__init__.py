"""Shards and the hosts that own them: admission, decisions, group commit and recovery of one process."""
