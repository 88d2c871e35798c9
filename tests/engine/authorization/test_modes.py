"""Managed and gateway mode agree on random lives: the same amounts and the same usage."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cards.authorization import Authorization, gateway_open_minor, open_hold
from engine.commands import reference_of_message, reference_of_network
from engine.controls import PerTxnCap
from engine.instant import DAY_MS
from tests.support.engine.build import account, card, key
from tests.support.engine.desk import Desk
from tests.support.engine.gateway_desk import GatewayDesk

AMOUNTS = st.integers(min_value=1, max_value=6_000)
VERBS = (
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
)
MOVES = st.one_of(
    st.tuples(st.sampled_from(VERBS), AMOUNTS, st.sampled_from("ab")),
    st.tuples(st.just("reverse"), st.sampled_from("ab")),
    st.tuples(st.just("undo"), st.integers(min_value=-3, max_value=3), st.sampled_from("ab")),
    st.just(("day",)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(MOVES, min_size=2, max_size=25))
def test_both_modes_agree_on_random_lives(moves: list[tuple[Any, ...]]) -> None:
    controls = (PerTxnCap(5_000),)
    managed = Desk(card=card(controls=controls), account=account(posted_minor=10**9))
    relayed = GatewayDesk(card=card(account_id=None, controls=controls))
    days = 0
    for verb, *arguments in moves:
        if verb == "day":
            # Stop before the first hold lapses: in gateway mode there is no lapse.
            days += 1
            if days > 6:
                return
        for desk in (managed, relayed):
            _move(desk, verb, *arguments)
        _agree(managed, relayed)


def _move(desk: Desk, verb: str, *arguments: Any) -> None:
    if verb == "day":
        desk.now_ms += DAY_MS
    elif verb == "undo":
        offset, sale = arguments
        message = reference_of_message(key(max(0, desk.number + offset)))
        desk.reverse(sale, references=(message, reference_of_network(sale)))
    else:
        getattr(desk, verb)(*arguments)


def _agree(managed: Desk, relayed: GatewayDesk) -> None:
    assert (managed.card.day_count, managed.card.day_amount_minor) == relayed.counters
    mine, theirs = list(managed.known), list(relayed.known)
    assert [_figures(each, managed) for each in mine] == [_figures(each, relayed) for each in theirs]


def _figures(each: Authorization, desk: Desk) -> tuple[Any, ...]:
    if each.kind == "refund":
        # Managed mode credits a refund before its presentment, gateway mode does not.
        return each.kind, each.decline_reason, each.cleared_minor
    hold = open_hold(each, None if isinstance(desk, GatewayDesk) else desk.account)
    open_minor = (
        gateway_open_minor(each) if isinstance(desk, GatewayDesk) else hold.amount_minor if hold else 0
    )
    return each.kind, each.approved_minor, open_minor, each.cleared_minor, each.reversed_minor
