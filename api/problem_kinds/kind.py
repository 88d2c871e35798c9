"""What is said of each kind of problem, in its body and on its page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One kind of problem: ``meaning`` says what happened, ``remedy`` what to do about it."""

    slug: str
    status: int
    title: str
    meaning: str
    remedy: str
