"""Webhook endpoints: where events are sent, and what has become of each delivery (spec 4.8; contract,
section 9).
"""
