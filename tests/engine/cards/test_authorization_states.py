"""The code keeps to the table of an authorization's states, and reaches each of its transitions."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cards.authorization_states import DESCRIPTIONS, OPENINGS, STATES, TRANSITIONS, permits
from engine.controls import PerTxnCap
from tests.support.engine.build import account, card
from tests.support.engine.observed_desk import ObservedDesk, ObservedGatewayDesk, Observer, Transition

LEGAL: Final = {
    (state, event, after)
    for state, events in TRANSITIONS.items()
    for event, states in events.items()
    for after in states
}
LEGAL_OPENINGS: Final = {(opening, state) for opening, states in OPENINGS.items() for state in states}
CONTROLS: Final = (PerTxnCap(5_000),)
"""Sales above 50.00 are declined."""

# Messages are numbered from 1; ``undo 2`` and ``undo_late 2`` name the second message.
IN_BOTH_MODES: Final = [
    "authorize 1000, increment 500, lower 1200, reverse",
    "authorize 1000, part 400, increment 100, lower 300, reverse",
    "authorize 1000, part 400, part 100, present 100",
    "authorize 1000, present 1000, present 100",
    "authorize 1000, advise 1300, advise_no 1000",
    "authorize 1000, part 400, advise 1200, advise 400",
    "authorize 1000, undo_late 1, present 400, undo 1",
    "authorize 1000, undo_late 1, undo 1",
    "authorize 1000, undo_late 1, advise 1000, advise_no 1000",
    "authorize 1000, undo_late 1, present 400, advise 1000",
    "authorize 1000, undo_late 1, wait 31, present 100",
    "authorize 1000, undo_late 1, present 400, wait 31, present 100",
    "authorize 1000, increment 500, undo_late 2",
    "authorize 1000, increment 500, present 1500, undo_late 2",
    "authorize 1000, increment 500, present 1500, undo 2",
    "authorize 1000, increment 500, reverse, undo 2",
    "authorize 1000, increment 500, reverse, undo_late 2",
    "authorize 1000, increment 500, undo_late 1, undo_late 2",
    "authorize 1000, increment 500, part 400, undo_late 2",
    "authorize 1000, part 400, undo_late 1",
    "authorize 6000, advise 6000",
    "authorize 6000, reverse",
    "undo_late 2, authorize 6000, wait 31, advise 6000",
    "reverse, authorize 1000",
    "reverse, authorize 6000",
    "undo_late 2, authorize 1000",
    "authorize 0",
    "advise 1000",
    "advise_no 1000",
    "advise 0",
    "reverse, advise 1000",
    "reverse, advise_no 1000",
    "present 1000",
    "give 1000",
    "refund 700, give_part 300, give 400, give 100",
    "refund 700, lower 300, reverse, give 700",
    "refund 700, give_part 300, reverse",
    "refund 700, reverse, give_part 300, give 400",
    "refund 700, undo_late 1",
    "refund 700, give_part 300, undo_late 1",
    "reverse, refund 700",
    "refund 0",
]
# Only holds expire.
IN_MANAGED_MODE: Final = [
    "authorize 1000, expire, increment 500",
    "authorize 1000, part 400, expire, increment 100",
    "authorize 1000, expire, undo_late 4, increment 500",
    "authorize 1000, expire, advise 1000",
    "authorize 1000, part 400, expire, advise 1000",
    "authorize 1000, expire, part 400, present 600",
    "authorize 1000, expire, lower 400, reverse",
    "authorize 1000, part 400, expire, reverse",
    "authorize 1000, increment 500, expire, undo_late 2 500",
    "authorize 1000, increment 500, lower 300, expire, undo_late 2 500",
]


def observed(gateway: bool) -> Observer:
    if gateway:
        return ObservedGatewayDesk(card=card(account_id=None, controls=CONTROLS))
    return ObservedDesk(card=card(controls=CONTROLS), account=account(posted_minor=10**6))


def assert_legal(desk: Observer) -> None:
    assert desk.transitions <= LEGAL
    assert desk.openings <= LEGAL_OPENINGS


def test_every_transition_and_opening_is_reached() -> None:
    transitions: set[Transition] = set()
    openings: set[tuple[str, str]] = set()
    scripts = [(script, gateway) for script in IN_BOTH_MODES for gateway in (False, True)]
    for script, gateway in scripts + [(script, False) for script in IN_MANAGED_MODE]:
        desk = observed(gateway)
        desk.do_all(script)
        assert_legal(desk)
        transitions |= desk.transitions
        openings |= desk.openings
    unfunded = ObservedDesk(card=card(account_id=None), account=None)  # type: ignore[arg-type]
    unfunded.do_all("advise 1000, present 1000, reverse, advise 1000")
    assert unfunded.transitions == set()
    assert transitions == LEGAL
    assert openings | unfunded.openings == LEGAL_OPENINGS


AMOUNTS = st.sampled_from([300, 700, 1_000, 2_000, 6_000])
SALES = st.sampled_from("ab")
STEPS = st.one_of(
    st.tuples(
        st.sampled_from(
            [
                "authorize",
                "refund",
                "increment",
                "present",
                "part",
                "give",
                "give_part",
                "advise",
                "advise_no",
                "lower",
            ]
        ),
        AMOUNTS,
        SALES,
    ),
    st.tuples(st.sampled_from(["reverse", "expire"]), SALES),
    st.tuples(st.just("undo"), st.integers(-3, 2), SALES),
    st.tuples(st.just("undo_late"), st.integers(-4, 2)),
    st.tuples(st.just("wait"), st.sampled_from([1, 8, 31])),
)


@pytest.mark.parametrize("gateway", [False, True], ids=["managed", "gateway"])
@settings(max_examples=150, deadline=None)
@given(steps=st.lists(STEPS, min_size=3, max_size=15))
def test_random_lives_keep_to_the_table(gateway: bool, steps: list[tuple[Any, ...]]) -> None:
    desk = observed(gateway)
    for verb, *arguments in steps:
        if verb in ("undo", "undo_late"):
            # A message near the newest one, or one that is still to come.
            arguments[0] = max(0, desk.number + arguments[0])
        getattr(desk, verb)(*arguments)
    assert_legal(desk)


def test_every_state_is_described_and_can_be_entered() -> None:
    entered = {after for *_, after in LEGAL} | {state for _, state in LEGAL_OPENINGS}
    assert set(STATES) == set(TRANSITIONS) == set(DESCRIPTIONS) == entered


@pytest.mark.parametrize(
    ("state", "event", "permitted"),
    [
        ("held", "increment", True),
        ("cleared", "increment", False),
        ("declined", "presentment", False),
        ("reversed", "advice", False),
        ("reversed_by_edge", "advice", True),
        ("verified", "reversal", False),
    ],
)
def test_state_permits_only_events_of_the_table(state: Any, event: Any, permitted: bool) -> None:
    assert permits(state, event) == permitted
