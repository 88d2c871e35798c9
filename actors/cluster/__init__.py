"""Processes over Ray: their creation, supervision and end, and calls between them. The only package that
imports Ray."""
