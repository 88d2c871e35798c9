"""Webhook delivery: dispatchers claim due deliveries, sign and send them, and record the results."""
