"""The pure core: money, cards, holds, decisions and wire formats.

The engine has no clock, no randomness and no I/O. Every input is an argument and every result a value, so a
replay of a stored decision gives the same bytes.
"""
