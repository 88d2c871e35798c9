"""Prometheus for an installation: scrape configuration, rules, alerts, and a command for a local server."""
