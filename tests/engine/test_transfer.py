"""The public representation of transfers."""

from __future__ import annotations

from typing import get_args

from engine.instant import to_text
from engine.transfer import DIRECTIONS, OPPOSITE, Direction, TransferKind, transfer_view
from tests.support.engine.build import NOW_MS, an_id, posted_transfer


def test_each_kind_has_directions() -> None:
    assert set(DIRECTIONS) == set(get_args(TransferKind))
    assert all(set(directions) <= set(get_args(Direction)) for directions in DIRECTIONS.values())
    assert {OPPOSITE[OPPOSITE[each]] for each in get_args(Direction)} == set(get_args(Direction))


def test_reversed_transfer_names_its_reversal() -> None:
    posted = transfer_view(posted_transfer())
    assert (posted["status"], posted["reversal_id"], posted["reversed_at"]) == ("posted", None, None)
    shown = transfer_view(posted_transfer(reversal_id=an_id(5), reversed_ms=NOW_MS))
    assert shown == posted | {
        "status": "reversed",
        "reversal_id": an_id(5),
        "reversed_at": to_text(NOW_MS),
    }
