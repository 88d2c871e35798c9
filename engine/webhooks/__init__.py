"""The rules of webhooks: the bytes of a delivery, its signature, the schedule of attempts, the catalogue."""
