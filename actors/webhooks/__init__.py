"""Deliveries leave from here: dispatchers claim what is due, sign and send it, and record what came of it."""
