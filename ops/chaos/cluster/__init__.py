"""Drills on a cluster under load."""
