"""Types of command-line options that several load tests share (``argparse``)."""

from __future__ import annotations


def positive(text: str) -> float:
    """A number above zero."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


def count(text: str) -> int:
    """A whole number from one on."""
    if int(text) < 1:
        raise ValueError(text)
    return int(text)
