"""Increments: the cap on one transaction, the hold, and the replay of their decisions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.commands import (
    Authorize,
    reference_of_network,
)
from engine.controls import PerTxnCap
from engine.decision.decide import Decision
from engine.decision.decide import authorize as decide
from engine.decision.inputs import Inputs
from engine.decision.trace_view import step_view
from engine.instant import DAY_MS
from tests.support.engine.build import (
    authorize,
    wire,
)
from tests.support.engine.desk import SALE, Desk
from tests.support.engine.gateway_desk import desk_in, in_both_modes

# Messages with their response codes; the cap is 10.00.
CAPPED: dict[str, list[tuple[Any, ...]]] = {
    "total within the cap": [("authorize", 800, "00"), ("increment", 200, "00")],
    "total above the cap": [("authorize", 800, "00"), ("increment", 201, "61"), ("increment", 200, "00")],
    "several increments": [("authorize", 800, "00"), ("increment", 100, "00"), ("increment", 101, "61")],
    "after a partial reversal": [("authorize", 800, "00"), ("lower", 300, "00"), ("increment", 700, "00")],
    "after a partial capture": [("authorize", 800, "00"), ("part", 300, "00"), ("increment", 201, "61")],
    "after a lapse": [("authorize", 800, "00"), ("expire",), ("increment", 201, "61")],
    "of a sale that is over": [("authorize", 800, "00"), ("present", 800, "00"), ("increment", 900, "00")],
}


@pytest.mark.parametrize(("name", "gateway"), in_both_modes(CAPPED))
def test_per_txn_cap_limits_the_total_of_the_authorization(name: str, gateway: bool) -> None:
    desk = desk_in(gateway)
    desk.card.controls = (PerTxnCap(1_000),)
    for verb, *arguments in CAPPED[name]:
        if verb == "expire":
            desk.expire()
            continue
        amount, code = arguments
        assert getattr(desk, verb)(amount) == code


def test_per_txn_cap_shows_total_and_limit() -> None:
    desk = Desk()
    desk.card.controls = (PerTxnCap(1_000),)
    desk.authorize(800)
    assert desk.increment(300) == "61"
    decision = desk.done[-1].outcome
    assert isinstance(decision, Decision)
    assert step_view(decision.trace[-1]) == {
        "rule": "per_txn_cap",
        "outcome": "fail",
        "observed": "11.00",
        "limit": "10.00",
    }


AMOUNTS = st.integers(min_value=1, max_value=6_000)


@settings(max_examples=200, deadline=None)
@given(AMOUNTS, AMOUNTS, st.integers(min_value=0, max_value=9))
def test_decision_on_an_increment_replays(first: int, delta: int, days: int) -> None:
    desk = Desk()
    desk.authorize(first)
    desk.now_ms += days * DAY_MS
    number = desk._next()
    command = authorize(
        number,
        amount_minor=delta,
        wire=wire(number, network_txn_id=SALE),
        references=(reference_of_network(SALE),),
    )
    executed = desk.do(command)
    again = msgspec.json.decode(msgspec.json.encode(command), type=Authorize)
    seen = msgspec.json.decode(msgspec.json.encode(executed.inputs), type=Inputs)
    assert msgspec.json.encode(decide(again, seen)) == msgspec.json.encode(executed.outcome)
