"""The state tables of cards, programmes and holds: each pair of states, legal or not."""

from __future__ import annotations

from itertools import product

import pytest

from engine.cards import card as cards
from engine.cards import hold as holds
from engine.cards.card import may_become
from engine.programmes import programme as programmes
from tests.support.engine.build import card

CARD_STATES = ("unactivated", "active", "suspended", "terminated", "lost", "stolen")
CARD_MOVES = {
    "unactivated": {"active", "terminated", "lost", "stolen"},
    "active": {"suspended", "terminated", "lost", "stolen"},
    "suspended": {"active", "terminated", "lost", "stolen"},
}


@pytest.mark.parametrize(("before", "after"), list(product(CARD_STATES, CARD_STATES)))
def test_events_of_cards(before: str, after: str) -> None:
    allowed = before == after or after in CARD_MOVES.get(before, set())
    assert may_become(card(state=before), after) == allowed


def test_unknown_card_state_is_illegal() -> None:
    assert set(cards.TRANSITIONS) == set(CARD_STATES)
    assert not may_become(card(), "frozen")
    assert not may_become(card(), "")


@pytest.mark.parametrize(("before", "after"), list(product(("active", "suspended", "closed"), repeat=2)))
def test_transitions_of_programmes(before: str, after: str) -> None:
    allowed = {
        ("active", "suspended"),
        ("active", "closed"),
        ("suspended", "active"),
        ("suspended", "closed"),
    }
    assert (after in programmes.TRANSITIONS[before]) == ((before, after) in allowed)


def test_closed_hold_has_no_transition() -> None:
    assert holds.TRANSITIONS["held"] == {"captured", "released", "lapsed"}
    assert all(not holds.TRANSITIONS[final] for final in ("captured", "released", "lapsed"))
