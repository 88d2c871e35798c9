"""Webhook endpoints: where events are sent, and what has become of each delivery."""
