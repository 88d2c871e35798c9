"""Compact texts as values agree with the full texts that they stand for."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.commands import Authorize
from engine.controls import PerTxnCap
from engine.decision.compact_layout import Configuration, Further
from engine.decision.compact_values import has_decision, has_inputs, known_configuration, plain_command
from engine.decision.decide import Decision
from engine.decision.delegation import EndpointResult
from engine.decision.recorded import decode_inputs
from engine.trace import TraceStep
from tests.support.engine.compact import Recorded, decided, recorded

_decision = msgspec.json.Decoder(Decision).decode
_command = msgspec.json.Decoder(Authorize).decode
OTHER_INPUTS: dict[str, Any] = {
    "now_ms": 1,
    "card_seq": 0,
    "card_state": "other",
    "network": "other",
    "card_currency": "JPY",
    "exp_year": 1,
    "exp_month": 99,
    "controls": (PerTxnCap(7),),
    "day": "2000-01-01",
    "day_count": 77,
    "day_amount_minor": 77_777,
    "cvv2_failures": 7,
    "programme_version": 77,
    "programme_status": "other",
    "programme_mode": "gateway",
    "timezone": "Asia/Tokyo",
    "hold_expiry_days": 77,
    "account_version": 777,
    "posted_minor": 7,
    "held_minor": 7,
    "lapsed_holds": ("x",),
    "decisioning": "other",
    "endpoint_result": EndpointResult("approved", 7),
    "declared_remaining_minor": 7,
    "rules": 0,
    "reversed_early": True,
}
OTHER_DECISION: dict[str, Any] = {
    "reason": "other",
    "response_code": "77",
    "approval_code": "ZZZZZZ",
    "approved_minor": 7,
    "decided_by": "stand_in",
    "risk_score": 101,
    "risk_action": "other",
    "day": "1999-01-01",
    "hold_expires_ms": 7,
    "trace": (TraceStep("funds", "fail", 1, 2),),
    "decline_detail": "other",
    "matched_rule": ("x", 1),
    "shadow_matches": (("x", 1),),
}


def assert_agrees(each: Recorded) -> None:
    """The row has the values of its full texts, and no others."""
    assert each.full.inputs is not None
    assert each.full.decision is not None
    inputs, decision = decode_inputs(each.full.inputs), _decision(each.full.decision)
    configuration = known_configuration(each.configuration)
    assert plain_command(each.row) == _command(each.full.command)
    assert has_inputs(each.row, inputs, configuration)
    assert has_decision(each.row, decision, inputs.day) == (decision.stand_in is None)
    blocked = not inputs.cardholder_active
    for name, value in (*OTHER_INPUTS.items(), ("cardholder_active", blocked)):
        assert not has_inputs(each.row, msgspec.structs.replace(inputs, **{name: value}), configuration), name
    for name, value in OTHER_DECISION.items():
        other = msgspec.structs.replace(decision, **{name: value})
        assert not has_decision(each.row, other, inputs.day), name


def test_rows_stored_by_any_release_have_the_values_of_their_full_texts() -> None:
    for each in recorded():
        assert_agrees(each)


@given(st.randoms(use_true_random=False), st.integers(1, 9_999), st.text(max_size=25), st.booleans())
def test_rows_have_the_values_of_their_full_texts(
    dice: random.Random, number: int, name: str, delegated: bool
) -> None:
    each, _, _ = decided(dice, number, delegated=delegated, merchant_name=name)
    assert each is not None, "every one of these authorizations is plain"
    assert_agrees(each)


def test_further_members_are_members_of_the_command_with_the_same_defaults() -> None:
    fields = {field.name: field for field in msgspec.structs.fields(Authorize)}
    for field in msgspec.structs.fields(Further):
        assert fields[field.name].default == field.default, field.name


@pytest.mark.parametrize("part", ["card", "programme"])
def test_configuration_without_its_values_is_an_error(part: str) -> None:
    stored = recorded()[0].configuration
    with pytest.raises(msgspec.DecodeError):
        known_configuration(Configuration(**(stored._asdict() | {part: '"x"'})))
