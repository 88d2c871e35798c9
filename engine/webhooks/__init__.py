"""Webhooks as pure rules: the bytes of a delivery, its signature, when attempts are due, the catalogue."""
