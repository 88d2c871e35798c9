"""Webhooks as pure rules: the bytes of a delivery, its signature, the schedule of attempts, the catalogue."""
