"""The texts of a kind of problem, used in its body and on its page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One kind of problem: ``meaning`` explains the cause, ``remedy`` the next step."""

    slug: str
    status: int
    title: str
    meaning: str
    remedy: str
