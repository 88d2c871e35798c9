"""Prometheus for an installation: scrape configuration, rules, and a server on the same machine."""
