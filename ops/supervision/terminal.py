"""Lines that the supervisor prints for the person who started it."""

from __future__ import annotations


def tell(text: str) -> None:
    """Print to the terminal; flushed, because the output of a supervisor is often a file."""
    print(text, flush=True)
