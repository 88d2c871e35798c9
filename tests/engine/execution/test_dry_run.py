"""Reads that decide: they equal the command that follows, and change nothing."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import pytest

from engine.commands import Authorize
from engine.controls import PerDayAmountCap, PerDayCap, PerTxnCap
from engine.decision.decide import Decision, decision_view
from engine.execution.execute import execute
from engine.instant import DAY_MS
from engine.replies import Done, Problem
from tests.support.engine.build import (
    NOW_MS,
    TENANT,
    account,
    an_id,
    authorize,
    card,
    evaluate,
    read_headroom,
)
from tests.support.engine.life import Life, approved


def body(life: Life, command: Any, now_ms: int = NOW_MS) -> dict[str, Any]:
    reply = life.do(command, now_ms).reply
    assert isinstance(reply, Done)
    assert reply.status == 200
    return reply.body


def test_dry_run_equals_the_spend_that_follows() -> None:
    dice = Random(7)
    life = Life(card(controls=(PerTxnCap(3_000), PerDayCap(12), PerDayAmountCap(9_000))), account())
    outcomes = set()
    for number in range(1, 60):
        now_ms = NOW_MS + number * DAY_MS // 4
        request = authorize(
            number,
            amount_minor=dice.choice((0, 500, 1_500, 4_000)),
            partial_allowed=dice.random() < 0.3,
            kind=dice.choices(("purchase", "refund"), (6, 1))[0],
            cvv2=dice.choices(("absent", "mismatch"), (9, 1))[0],
        )
        before = copy.deepcopy(life.context)
        shown = body(life, evaluate(number, request=request), now_ms)
        assert life.context == before
        decision = life.do(request, now_ms).outcome
        assert isinstance(decision, Decision)
        assert {name: shown[name] for name in decision_view(decision)} == decision_view(decision)
        outcomes.add((decision.decision, decision.reason))
    assert len(outcomes) >= 4


def test_headroom_is_the_largest_spend_that_follows() -> None:
    for more, expected in ((0, True), (1, False)):
        life = Life(card(controls=(PerDayAmountCap(9_000),)), account())
        assert approved(life.do(authorize(1, amount_minor=1_234)))
        before = copy.deepcopy(life.context)
        shown = body(life, read_headroom())
        assert life.context == before
        assert (shown["max_amount"], shown["binding"]["rule"]) == ("77.66", "per_day_amount_cap")
        assert approved(life.do(authorize(2, amount_minor=7_766 + more))) is expected


def test_expired_holds_do_not_count_and_stay_open() -> None:
    life = Life(card(), account())
    assert approved(life.do(authorize(1, amount_minor=9_000)))
    before = copy.deepcopy(life.account)
    later = NOW_MS + 7 * DAY_MS
    assert body(life, read_headroom(), later - 1)["max_amount"] == "10.00"
    assert body(life, read_headroom(), later)["max_amount"] == "100.00"
    assert body(life, evaluate(request=authorize(2, amount_minor=10_000)), later)["decision"] == "approved"
    assert life.account == before


def test_reads_have_no_rows_events_or_decision() -> None:
    life = Life(card(), account())
    for command in (evaluate(), read_headroom()):
        executed = life.do(command)
        assert (executed.journaled, executed.effects, executed.events) == (False, (), ())
        assert (executed.outcome, executed.inputs, executed.authorization_id) == (None, None, None)


@pytest.mark.parametrize("parts", [{"tenant_id": an_id(9)}, {"live": True}])
@pytest.mark.parametrize("make", [evaluate, read_headroom])
def test_card_of_another_tenant_or_mode_is_not_found(make: Any, parts: dict[str, Any]) -> None:
    life = Life(card(tenant_id=TENANT), account())
    reply = life.do(make(**parts)).reply
    assert isinstance(reply, Problem)
    assert (reply.status, reply.slug) == (404, "not-found")


def test_request_of_a_dry_run_is_not_executed_again_as_a_repeat() -> None:
    """The spend itself is decided after its dry run: a dry run uses up no command key."""
    life, request = Life(card(), account()), authorize(1)
    assert isinstance(request, Authorize)
    body(life, evaluate(request=request))
    assert approved(execute(request, life.context, NOW_MS))
