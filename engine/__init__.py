"""The pure heart: money, cards, holds, decisions and wire formats.

Nothing here reads a clock, draws a random number or touches the outside world: every input is an argument,
every result a value, so a stored decision can be recomputed byte for byte.
"""
