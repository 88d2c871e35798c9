"""Both sides of the ISO 8583 wire: the edge, which answers, and the simulated network, which sends requests.

They communicate over TCP only. Both are plain objects that run without Ray. ``engine.iso8583`` builds and
reads their messages.
"""
