"""The network's two sides: the edge, which answers ISO 8583 over TCP, and the simulated network, which asks.

They share nothing but the wire. Both are plain objects that run without Ray; what they say stands in
``engine.iso8583``.
"""
