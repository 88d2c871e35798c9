"""Dry runs: the decision that would be made, and its public representation."""

from __future__ import annotations

from typing import Any

import pytest

from engine.controls import MccDeny, PerDayCap, PerTxnCap
from engine.decision.decide import authorize, decision_view
from engine.decision.delegation import EndpointResult
from engine.decision.dry_run import dry_run, dry_run_view, headroom_view
from engine.decision.headroom import headroom
from engine.programmes.stand_in import Grant
from tests.support.engine.build import CARD, NOW_MS, inputs
from tests.support.engine.build import authorize as spend

AS_OF = {"card_seq": 7, "programme_version": 1, "at": "2026-11-21T10:00:00.000Z"}
GRANTED = EndpointResult(trigger="timeout", grant=Grant("within_ceilings", "outage", 1_000, 10_000))


def view(command: Any = None, **parts: Any) -> dict[str, Any]:
    seen = inputs(card_seq=7, **parts)
    return dry_run_view(CARD, seen, dry_run(command or spend(), seen))


@pytest.mark.parametrize(
    "parts",
    [{}, {"card_state": "lost"}, {"posted_minor": 0}, {"controls": (PerTxnCap(500),)}, {"held_minor": 9_500}],
)
@pytest.mark.parametrize(
    "asked",
    [{}, {"amount_minor": 0}, {"kind": "refund"}, {"partial_allowed": True}, {"cvv2": "mismatch"}],
)
def test_dry_run_is_the_decision(parts: dict[str, Any], asked: dict[str, Any]) -> None:
    command, seen = spend(**asked), inputs(**parts)
    run, decision = dry_run(command, seen), authorize(command, seen)
    assert (run.decision, run.delegated) == (decision, False)
    shown = dry_run_view(CARD, seen, run)
    assert {name: shown[name] for name in decision_view(decision)} == decision_view(decision)
    assert shown["response_code"] == decision.response_code


def test_view_of_an_approval() -> None:
    shown = view(spend(partial_allowed=True, amount_minor=20_000))
    assert shown["approved_amount"] == {"amount": "100.00", "currency": "EUR"}
    assert (shown["decision"], shown["response_code"], shown["as_of"]) == ("approved", "10", AS_OF)
    assert (shown["decline_reason"], shown["decline_detail"], shown["card_id"]) == (None, None, CARD)


def test_view_of_a_decline() -> None:
    shown = view(posted_minor=0)
    assert (shown["decision"], shown["decline_reason"]) == ("declined", "insufficient_funds")
    assert (shown["approved_amount"], shown["response_code"]) == (None, "51")
    assert shown["trace"][-1]["outcome"] == "fail"


def test_delegated_purchase_ends_before_the_question() -> None:
    shown = view(decisioning="delegated")
    assert (shown["decision"], shown["decided_by"], shown["response_code"]) == (
        "delegated",
        "programme",
        None,
    )
    assert (shown["decline_reason"], shown["approved_amount"]["amount"]) == (None, "10.00")
    assert [step["outcome"] for step in shown["trace"]][-2:] == ["pass", "skip"]
    assert shown["trace"][-1]["rule"] == "programme_decision"


@pytest.mark.parametrize(
    ("asked", "parts", "decision"),
    [
        ({}, {"posted_minor": 0}, "declined"),
        ({"kind": "refund"}, {}, "approved"),
        ({"amount_minor": 0}, {}, "approved"),
        ({}, {"endpoint_result": GRANTED, "declared_remaining_minor": 5_000}, "approved"),
        ({}, {"endpoint_result": GRANTED, "declared_remaining_minor": 500}, "declined"),
    ],
)
def test_platform_and_stand_in_decide_for_a_delegated_programme(
    asked: dict[str, Any], parts: dict[str, Any], decision: str
) -> None:
    shown = view(spend(**asked), decisioning="delegated", **parts)
    assert shown["decision"] == decision
    assert shown["decided_by"] == ("stand_in" if "endpoint_result" in parts else "platform")


@pytest.mark.parametrize(
    ("currency", "shown"), [("JPY", "10000"), ("EUR", "100.00"), ("KWD", "10.000")], ids=str
)
def test_amounts_have_the_decimals_of_the_currency(currency: str, shown: str) -> None:
    command, seen = spend(currency=currency), inputs(card_currency=currency, controls=(PerDayCap(3),))
    found = headroom_view(CARD, seen, headroom(command, seen))
    assert (found["max_amount"], found["currency"]) == (shown, currency)
    assert found["limits"][0] | {"resets_at": None} == {
        "rule": "per_day_cap", "unit": "count", "limit": "3", "used": "0", "remaining": "3", "resets_at": None
    }  # fmt: skip
    assert found["limits"][-1]["remaining"] == found["binding"]["limit"] == shown
    assert found["limits"][0]["resets_at"] == "2026-11-22T00:00:00.000Z"


def test_headroom_of_a_blocked_card_has_its_reason() -> None:
    seen = inputs(card_seq=7, card_state="suspended", decisioning="delegated", now_ms=NOW_MS)
    found = headroom_view(CARD, seen, headroom(spend(), seen))
    assert (found["max_amount"], found["decline_reason"]) == ("0.00", "card_suspended")
    assert found["binding"] == {
        "rule": "card_state",
        "decline_reason": "card_suspended",
        "decline_detail": None,
        "unit": None,
        "limit": "active",
        "used": "suspended",
    }  # fmt: skip
    assert (found["decided_by"], found["as_of"]) == ("programme", AS_OF)


def test_binding_without_a_limit_shows_the_value_alone() -> None:
    seen = inputs(controls=(MccDeny(("5411",)),))
    binding = headroom_view(CARD, seen, headroom(spend(), seen))["binding"]
    assert (binding["rule"], binding["limit"], binding["used"]) == ("mcc_deny", None, "5411")


def test_headroom_above_zero_has_no_reason() -> None:
    seen = inputs(programme_mode="gateway")
    found = headroom_view(CARD, seen, headroom(spend(), seen))
    assert (found["max_amount"], found["binding"], found["decline_reason"]) == ("9999999999.99", None, None)
