"""Delegated decisions: the programme decides, or the stand-in for it; the question to its endpoint."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.authorization.authorizing import question
from engine.authorization.effects import BalanceDeclared, HoldPlaced, StandInRecorded
from engine.authorization.executed import CommandContext
from engine.cards.card import DeclaredBalance
from engine.decision.decide import Decision, must_call_endpoint
from engine.decision.decide import authorize as decide
from engine.decision.delegation import EndpointResult
from engine.decision.inputs import Inputs
from engine.execution.execute import execute
from engine.ids import Derived, derive
from engine.instant import DAY_MS
from engine.programmes.stand_in import Grant, Rule
from tests.support.engine.build import NOW_MS, account, an_id, authorize, card, inputs, programme

OUTAGE = an_id(0xF1)
DELEGATED = programme(decisioning="delegated", decision_url="https://decide.example")


def granted(rule: Rule = "within_ceilings") -> EndpointResult:
    return EndpointResult(trigger="timeout", grant=Grant(rule, OUTAGE, 1_000, 5_000))


def seen(**parts: Any) -> Inputs:
    return inputs(**{"decisioning": "delegated", "declared_remaining_minor": 2_000} | parts)


def steps(decision: Decision) -> list[tuple[str, str]]:
    return [(step.rule, step.outcome) for step in decision.trace[-3:]]


ROWS: list[tuple[str, dict[str, Any], dict[str, Any], tuple[str | None, str, str, int]]] = [
    # what happened, inputs, command, (reason, DE39, decided by, approved)
    ("approved", {"endpoint_result": EndpointResult("approved")}, {}, (None, "00", "programme", 1_000)),
    (
        "declined",
        {"endpoint_result": EndpointResult("declined")},
        {},
        ("programme_declined", "05", "programme", 0),
    ),
    (
        "approved in part",
        {"endpoint_result": EndpointResult("approved", 400)},
        {"partial_allowed": True},
        (None, "10", "programme", 400),
    ),
    (
        "approved in part, and the terminal takes no partial approval",
        {"endpoint_result": EndpointResult("approved", 400)},
        {},
        ("programme_declined", "05", "programme", 0),
    ),
    (
        "approved, but the funds were spent since",
        {"endpoint_result": EndpointResult("approved"), "posted_minor": 999},
        {},
        ("insufficient_funds", "51", "platform", 0),
    ),
    (
        "approved, but the card was suspended since",
        {"endpoint_result": EndpointResult("approved"), "card_state": "suspended"},
        {},
        ("card_suspended", "62", "platform", 0),
    ),
    (
        "no usable answer, and the card was suspended since",
        {"endpoint_result": granted(), "card_state": "suspended"},
        {},
        ("card_suspended", "62", "platform", 0),
    ),
    ("stand-in", {"endpoint_result": granted()}, {}, (None, "00", "stand_in", 1_000)),
    (
        "stand-in without funds",
        {"endpoint_result": granted(), "posted_minor": 5},
        {},
        (None, "00", "stand_in", 1_000),
    ),
    (
        "stand-in up to the terminal's cap",
        {"endpoint_result": granted()},
        {"partial_allowed": True, "partial_cap_minor": 300},
        (None, "10", "stand_in", 300),
    ),
    (
        "above the cap of one approval",
        {"endpoint_result": granted("max_amount_exceeded")},
        {},
        ("stand_in_declined", "61", "stand_in", 0),
    ),
    (
        "budget exhausted",
        {"endpoint_result": granted("max_total_exposure_exceeded")},
        {},
        ("stand_in_declined", "61", "stand_in", 0),
    ),
    (
        "declared balance lowered since the grant",
        {"endpoint_result": granted(), "declared_remaining_minor": 999},
        {},
        ("stand_in_declined", "51", "stand_in", 0),
    ),
    (
        "stand-in disabled",
        {"endpoint_result": granted("mode_disabled")},
        {},
        ("stand_in_declined", "05", "stand_in", 0),
    ),
    (
        "no answer of the programme's owner",
        {"endpoint_result": EndpointResult(trigger="timeout")},
        {},
        ("stand_in_declined", "05", "stand_in", 0),
    ),
    (
        "failure without stand-in",
        {"endpoint_result": EndpointResult(trigger="timeout", grant=Grant("not_triggered"))},
        {},
        ("programme_declined", "05", "platform", 0),
    ),
    ("endpoint not called", {}, {}, ("programme_declined", "05", "platform", 0)),
    (
        "verification",
        {},
        {"amount_minor": 0},
        (None, "85", "platform", 0),
    ),
    ("refund", {}, {"kind": "refund"}, (None, "00", "platform", 1_000)),
    (
        "platform programme",
        {"decisioning": "platform"},
        {},
        (None, "00", "platform", 1_000),
    ),
    (
        "gateway mode without funds",
        {"programme_mode": "gateway", "posted_minor": None, "endpoint_result": EndpointResult("approved")},
        {},
        (None, "00", "programme", 1_000),
    ),
]


@pytest.mark.parametrize(("what", "inputs_given", "asked", "outcome"), ROWS, ids=[row[0] for row in ROWS])
def test_decision_of_a_delegated_authorization(
    what: str, inputs_given: dict[str, Any], asked: dict[str, Any], outcome: tuple[str | None, str, str, int]
) -> None:
    decision = decide(authorize(1, **asked), seen(**inputs_given))
    assert (
        decision.reason,
        decision.response_code,
        decision.decided_by,
        decision.approved_minor,
    ) == outcome, what
    assert (decision.stand_in is not None) == (decision.decided_by == "stand_in")
    if decision.stand_in is not None:
        assert decision.stand_in.exposure_minor == decision.approved_minor


def test_trace_of_a_stand_in() -> None:
    decision = decide(authorize(), seen(endpoint_result=granted()))
    assert steps(decision) == [
        ("programme_decision", "skip"),
        ("stand_in", "pass"),
        ("stand_in_budget", "pass"),
    ]
    assert decision.trace[-3].observed == "timeout"
    assert decision.trace[-2].observed == "within_ceilings"
    assert (decision.trace[-1].observed, decision.trace[-1].limit) == (1_000, 5_000)
    assert ("funds", "skip") in [(step.rule, step.outcome) for step in decision.trace]


def test_delegated_decision_replays_from_stored_inputs() -> None:
    for result in (None, EndpointResult("approved", 700), granted(), granted("max_amount_exceeded")):
        inputs_given = seen(endpoint_result=result)
        stored = msgspec.json.decode(msgspec.json.encode(inputs_given), type=Inputs)
        assert msgspec.json.encode(decide(authorize(), stored)) == msgspec.json.encode(
            decide(authorize(), inputs_given)
        )


@pytest.mark.parametrize(
    ("inputs_given", "asked", "wanted"),
    [
        ({}, {}, True),
        ({}, {"amount_minor": 0}, False),
        ({}, {"kind": "refund"}, False),
        ({"decisioning": "platform"}, {}, False),
        ({"card_state": "suspended"}, {}, False),
        ({"posted_minor": 999}, {}, False),
        ({"posted_minor": 999}, {"partial_allowed": True}, True),
        ({"endpoint_result": EndpointResult("approved")}, {}, False),
    ],
)
def test_endpoint_is_called_only_if_the_platform_rules_pass(
    inputs_given: dict[str, Any], asked: dict[str, Any], wanted: bool
) -> None:
    assert must_call_endpoint(authorize(1, **asked), seen(**inputs_given)) is wanted


def test_question_changes_no_state() -> None:
    context = CommandContext(card(), account(), DELEGATED)
    before = msgspec.json.encode((context.card, context.account))
    asked = question(authorize(), context, NOW_MS)
    assert asked is not None
    assert (asked.authorization_id, asked.operation, asked.amount_minor) == (
        authorize().id,
        "authorization",
        1_000,
    )
    assert msgspec.json.encode((context.card, context.account)) == before


def test_question_does_not_count_expired_holds() -> None:
    context = CommandContext(card(), account(), programme(), None)
    execute(authorize(1, amount_minor=9_000), context, NOW_MS)
    delegated = CommandContext(context.card, context.account, DELEGATED)
    assert question(authorize(2, amount_minor=5_000), delegated, NOW_MS) is None
    later = question(authorize(2, amount_minor=5_000), delegated, NOW_MS + 8 * DAY_MS)
    assert later is not None
    assert context.account is not None
    assert context.account.held_minor == 9_000


@pytest.mark.parametrize(
    "context",
    [
        CommandContext(card(), account(), programme()),
        CommandContext(card(), account(), DELEGATED, None, EndpointResult("approved")),
    ],
    ids=["platform decides", "endpoint has answered"],
)
def test_no_question_without_need(context: CommandContext) -> None:
    assert question(authorize(), context, NOW_MS) is None


def test_stand_in_holds_counts_and_consumes_the_declared_balance() -> None:
    context = CommandContext(
        card(declared=DeclaredBalance(2_000, 500, NOW_MS)),
        account(posted_minor=5),
        DELEGATED,
        None,
        granted(),
    )
    executed = execute(authorize(), context, NOW_MS)
    recorded = next(effect for effect in executed.effects if isinstance(effect, StandInRecorded))
    assert recorded.id == derive(authorize().id, Derived.STAND_IN)
    assert (
        recorded.decision,
        recorded.stand_in.rule,
        recorded.stand_in.outage_id,
        recorded.stand_in.exposure_minor,
    ) == (
        "approved",
        "within_ceilings",
        OUTAGE,
        1_000,
    )
    declared = next(effect for effect in executed.effects if isinstance(effect, BalanceDeclared)).declared
    assert (declared.balance_minor, declared.consumed_minor, declared.declared_ms) == (2_000, 1_500, NOW_MS)
    assert any(isinstance(effect, HoldPlaced) for effect in executed.effects)
    assert context.account is not None
    assert context.account.posted_minor - context.account.held_minor == -995
    assert (context.card.day_count, context.card.day_amount_minor) == (1, 1_000)
    assert [event.type for event in executed.events] == ["authorization.decided", "ledger.hold.created"]
    assert msgspec.json.decode(executed.events[0].data)["decided_by"] == "stand_in"


def test_refused_stand_in_is_recorded_and_consumes_nothing() -> None:
    context = CommandContext(
        card(declared=DeclaredBalance(2_000, 500, NOW_MS)),
        account(),
        DELEGATED,
        None,
        granted("max_amount_exceeded"),
    )
    executed = execute(authorize(), context, NOW_MS)
    recorded = next(effect for effect in executed.effects if isinstance(effect, StandInRecorded))
    assert (
        recorded.decision,
        recorded.stand_in.rule,
        recorded.stand_in.exposure_minor,
        recorded.response_code,
    ) == (
        "declined",
        "max_amount_exceeded",
        0,
        "61",
    )
    assert not any(isinstance(effect, BalanceDeclared) for effect in executed.effects)
