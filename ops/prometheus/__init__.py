"""Prometheus beside an installation: what it scrapes, its rules, and a server of one's own on a machine."""
