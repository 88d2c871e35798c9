"""Accounts that many cards share: the number of holds that an operation reads."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Iterable
from typing import Any, SupportsIndex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cards.account import Account, close_hold, place_hold, resize_hold
from engine.cards.expiries import Expiries
from engine.cards.hold import Hold
from tests.support.engine.build import ACCOUNT, CARD, NOW_MS, account, authorize, card
from tests.support.engine.life import Life

POOL = 100_000
READS_MAX = 80
"""Four for each level of a heap of 100,000, with a margin."""


class Counting(Expiries):
    """Counts the holds that are read."""

    __slots__ = ("reads",)

    def __init__(self, holds: Iterable[Hold] = ()) -> None:
        super().__init__(holds)
        self.reads = 0

    def __getitem__(self, place: Any) -> Any:
        self.reads += 1
        return super().__getitem__(place)

    def __iter__(self) -> Any:
        raise AssertionError("the holds are scanned")

    def pop(self, place: SupportsIndex = -1) -> Hold:
        self.reads += 1
        return super().pop(place)


class Unscannable(dict[str, Hold]):
    """Open holds by id, which allow look-ups and no scans."""

    def _refuse(self) -> Any:
        raise AssertionError("the holds are scanned")

    __iter__ = values = items = keys = _refuse


def pooled(size: int) -> Account:
    """An account with ``size`` open holds of 0.01, added in random order of expiry."""
    dice = random.Random(size)
    made = account(posted_minor=10_000_000)
    for number in range(size):
        expires_ms = NOW_MS + 1 + dice.randrange(10**9)
        place_hold(made, Hold(f"hold-{number}", CARD, f"authorization-{number}", 1, expires_ms))
    made.holds, made.expiries = Unscannable(made.holds), Counting(made.expiries)
    return made


def reads(life: Life) -> int:
    expiries = life.account.expiries
    assert isinstance(expiries, Counting)
    count, expiries.reads = expiries.reads, 0
    return count


@pytest.mark.parametrize("size", [10, POOL])
def test_decision_reads_few_holds_of_a_pooled_account(size: int) -> None:
    life = Life(card(), pooled(size))
    assert life.do(authorize(1)).journaled
    assert reads(life) <= READS_MAX


def test_close_and_resize_read_few_holds_of_a_pooled_account() -> None:
    life = Life(card(), pooled(POOL))
    for number in range(0, POOL, POOL // 50):
        close_hold(life.account, f"hold-{number}")
        assert reads(life) <= READS_MAX
    for number in range(1, POOL, POOL // 50):
        hold = life.account.holds[f"hold-{number}"]
        resize_hold(life.account, hold, 2, hold.expires_ms + (-1) ** number * 10**8)
        assert reads(life) <= READS_MAX


def test_closing_the_earliest_holds_reads_few_others() -> None:
    life = Life(card(), pooled(10_000))
    for _ in range(1_000):
        earliest = list.__getitem__(life.account.expiries, 0)
        close_hold(life.account, earliest.id)
        assert reads(life) <= READS_MAX


def test_expired_holds_are_found_without_the_others() -> None:
    made = pooled(POOL)
    now_ms = sorted(hold.expires_ms for hold in dict.values(made.holds))[4]
    assert len(made.expired_holds(now_ms)) == 5
    assert isinstance(made.expiries, Counting)
    assert made.expiries.reads <= 3 * 5 + 10


STEPS = st.lists(
    st.tuples(st.sampled_from(["place", "close", "move"]), st.integers(0, 40), st.integers(0, 20)),
    max_size=80,
)


@given(STEPS)
def test_expired_holds_are_those_past_their_expiry(
    steps: list[tuple[str, int, int]],
) -> None:
    made = account()
    for verb, number, expires_ms in steps:
        hold = made.holds.get(f"{number}")
        if verb == "place" and hold is None:
            place_hold(made, Hold(f"{number}", CARD, "authorization", 1, expires_ms))
        elif verb == "close" and hold is not None:
            close_hold(made, hold.id)
        elif verb == "move" and hold is not None:
            resize_hold(made, hold, 2, expires_ms)
        assert [hold.heap_index for hold in made.expiries] == list(range(len(made.holds)))
        for now_ms in range(-1, 21, 3):
            due = [hold for hold in made.holds.values() if hold.expires_ms <= now_ms]
            due.sort(key=lambda hold: (hold.expires_ms, hold.id))
            assert made.expired_holds(now_ms) == tuple(due)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_copied_account_is_independent(copied: Any) -> None:
    made = account()
    for number in range(9):
        place_hold(made, Hold(f"{number}", CARD, "authorization", 1, 9 - number))
    other = copied(made)
    assert other == made
    close_hold(other, "8")
    assert made.expiries == other.expiries
    assert (made.expiries != other.expiries) is False
    assert (other == made, len(made.expiries), len(other.expiries)) == (False, 9, 8)
    assert [hold.id for hold in other.expired_holds(3)] == ["7", "6"]
    assert other.id == ACCOUNT
