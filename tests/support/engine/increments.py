"""The originals of increments, as decisions see them."""

from __future__ import annotations

from engine.cards.authorization import OriginalView
from tests.support.engine.build import an_id


def original_of(approved_minor: int) -> OriginalView:
    """An open authorization of ``approved_minor``, of which nothing is cleared."""
    return OriginalView(an_id(77), approved_minor, 0, 0, approved_minor, 0, True)
