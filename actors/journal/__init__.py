"""Durability: what owners decided becomes rows by group commit, fenced by epochs."""
