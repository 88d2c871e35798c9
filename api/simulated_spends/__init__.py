"""Simulated spends: one authorization over the wire for each accepted request (spec 4.3, 4.4; contract,
section 6).
"""
