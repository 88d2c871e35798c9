"""Random lives of authorizations: accounts, counters, holds and replays are right after every message."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.authorization.effects import (
    HoldClosed,
    HoldLapsed,
    HoldPlaced,
)
from engine.cards.hold import TRANSITIONS
from engine.decision.decide import Decision
from engine.decision.inputs import Inputs
from engine.instant import DAY_MS
from tests.support.engine.desk import Desk

AMOUNTS = st.integers(min_value=1, max_value=6_000)


SALES = st.sampled_from(["a", "b", "c"])


MOVES = st.one_of(
    st.tuples(st.just("authorize"), AMOUNTS, SALES),
    st.tuples(st.just("increment"), AMOUNTS, SALES),
    st.tuples(st.just("present"), AMOUNTS, SALES),
    st.tuples(st.just("advise"), AMOUNTS, SALES),
    st.tuples(st.just("reverse"), SALES),
    st.tuples(st.just("lower"), AMOUNTS, SALES),
    st.tuples(st.just("part"), AMOUNTS, SALES),
    st.tuples(st.just("expire"), SALES),
    st.tuples(st.just("wait"), st.integers(min_value=1, max_value=9)),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(MOVES, min_size=1, max_size=40))
def test_random_lives_keep_the_books(moves: list[tuple[Any, ...]]) -> None:
    desk = Desk()
    used: set[str] = set()
    for verb, *arguments in moves:
        before = desk.account.version
        if verb == "wait":
            desk.now_ms += arguments[0] * DAY_MS
            continue
        if verb == "authorize" and arguments[1] in used:
            # A network gives each sale its own id.
            continue
        used.add(arguments[-1])
        if verb == "lower":
            desk.reverse(arguments[1], remaining_minor=arguments[0])
        elif verb == "part":
            desk.present(*arguments, final=False)
        else:
            getattr(desk, verb)(*arguments)
        assert desk.account.version - before in {0, 1}
        assert_books_balance(desk)
    assert_legal_hold_transitions(desk)
    assert_inputs_survive_storage(desk)


def assert_books_balance(desk: Desk) -> None:
    posted = sum(
        each.amount_minor if each.direction == "credit" else -each.amount_minor for each in desk.entries
    )
    assert desk.account.posted_minor == 10_000 + posted
    assert desk.account.held_minor == sum(hold.amount_minor for hold in desk.account.holds.values())
    assert all(hold.amount_minor > 0 for hold in desk.account.holds.values())
    assert min(desk.card.day_count, desk.card.day_amount_minor) >= 0
    for authorization in desk.known:
        assert (
            min(authorization.approved_minor, authorization.cleared_minor, authorization.reversed_minor) >= 0
        )
        hold = desk.account.holds.get(authorization.hold_id or "")
        if hold is not None:
            assert hold.amount_minor == authorization.remainder_minor
            assert hold.authorization_id == authorization.id


def assert_legal_hold_transitions(desk: Desk) -> None:
    states: dict[str, str] = {}
    for effect in desk.effects:
        if isinstance(effect, HoldPlaced):
            assert effect.hold.id not in states
            states[effect.hold.id] = "held"
        elif isinstance(effect, HoldClosed | HoldLapsed):
            state = effect.state if isinstance(effect, HoldClosed) else "lapsed"
            assert state in TRANSITIONS[states[effect.hold_id]]
            states[effect.hold_id] = state
    assert {id_ for id_, state in states.items() if state == "held"} == desk.account.holds.keys()


def assert_inputs_survive_storage(desk: Desk) -> None:
    for executed in desk.done:
        if isinstance(executed.outcome, Decision) and executed.inputs is not None:
            stored = msgspec.json.decode(msgspec.json.encode(executed.inputs), type=Inputs)
            assert stored == executed.inputs


def test_expired_hold_stops_counting_without_a_sweep() -> None:
    desk = Desk()
    desk.authorize(9_000)
    desk.now_ms += 8 * DAY_MS
    assert desk.authorize(10_000, "later") == "00"
    assert desk.balance == (10_000, 10_000)
