"""Durability: owners write their decisions by group commit, fenced by epochs."""
