"""Compact texts of plain authorizations give the exact original texts, also those stored by any release."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.commands import Authorize, WireIdentity
from engine.decision.compact import compacted
from engine.decision.compact_layout import OUTCOMES, RULE_NAMES, Configuration, digest_of
from engine.decision.compact_reading import expanded, full_command, is_compact, is_delegated
from engine.decision.decide import Decision, authorize
from engine.decision.delegation import EndpointResult
from engine.decision.inputs import Inputs
from engine.instant import DAY_MS
from engine.programmes.stand_in import Grant, StandIn
from engine.replies import Problem, Reply, WireAnswer
from engine.trace import TraceStep
from tests.support.engine import build
from tests.support.engine.compact import Recorded, decided, recorded

FIELDS: dict[type[msgspec.Struct], str] = {
    Authorize: "id command_key card_id fingerprint wire amount_minor currency mcc merchant_name"
    " merchant_country channel merchant_id kind entry_mode mit partial_allowed partial_cap_minor expiry"
    " cvv2 cvv1 pin chip chip_tags address authentication merchant_amount references endpoint_silent",
    WireIdentity: "acquirer_id stan transmitted_at rrn network_txn_id further",
    Decision: "decision reason response_code approval_code approved_minor decided_by risk_score risk_action"
    " day hold_expires_ms trace stand_in decline_detail matched_rule shadow_matches",
    Inputs: "now_ms card_seq card_state cardholder_active network card_currency exp_year exp_month controls"
    " day day_count day_amount_minor cvv2_failures programme_version programme_status programme_mode"
    " timezone hold_expiry_days account_version posted_minor held_minor lapsed_holds original decisioning"
    " endpoint_result declared_remaining_minor rules reversed_early rules_in_force",
    TraceStep: "rule outcome observed limit",
    WireAnswer: "response_code authorization_id approval_code approved_minor replayed reason",
}
"""All fields of the texts that ``compacted`` reads."""


def assert_expands(each: Recorded) -> None:
    assert is_compact(each.row.command)
    assert expanded(each.row, {each.configuration.digest: each.configuration}.__getitem__) == each.full
    assert full_command(each.row) == each.full.command
    assert digest_of(*each.configuration[1:]) == each.configuration.digest


def test_rows_stored_by_any_release_expand_byte_for_byte() -> None:
    rows = recorded()
    assert len(rows) > 100
    for each in rows:
        assert_expands(each)


@given(st.randoms(use_true_random=False), st.integers(1, 9_999), st.text(max_size=25), st.booleans())
def test_compact_texts_expand_to_the_original(
    dice: random.Random, number: int, name: str, delegated: bool
) -> None:
    each, _, _ = decided(dice, number, delegated=delegated, merchant_name=name)
    assert each is not None, "every one of these authorizations is plain"
    assert_expands(each)


def test_rows_of_every_decider_are_recorded() -> None:
    deciders = {msgspec.json.decode(each.full.decision or "")["decided_by"] for each in recorded()}
    assert deciders == {"platform", "programme", "stand_in"}


def test_only_rows_with_added_values_are_delegated() -> None:
    for each in recorded():
        added = '"endpoint_silent"' in each.full.command or not (each.full.inputs or "").endswith(
            ",null,null,1,false,null]"
        )
        assert is_delegated(each.row.command, each.row.inputs) == added
        assert not is_delegated(each.full.command, each.full.inputs)
    assert not is_delegated("[]", None)


def test_compact_texts_are_small() -> None:
    for each in recorded():
        texts = (each.row.command, each.row.inputs or "", each.row.decision or "", each.row.reply)
        assert sum(map(len, texts)) < 600 < 1_000 < sum(len(text or "") for text in each.full)


@pytest.mark.parametrize("struct", FIELDS, ids=lambda struct: struct.__name__)
def test_every_field_is_considered(struct: type[msgspec.Struct]) -> None:
    """A new field must be stored: extend ``compacted`` so that rows with a value of it are stored in full, or
    give them a layout of their own. Then add it here."""
    assert list(struct.__struct_fields__) == FIELDS[struct].split()


def test_numbers_of_rules_and_outcomes_never_change() -> None:
    assert OUTCOMES == ("pass", "fail", "skip")
    assert RULE_NAMES[:4] == ("card_state", "card_expiry", "cardholder", "programme")
    assert RULE_NAMES[8:11] == ("currency", "risk", "funds")
    assert RULE_NAMES[24:26] == ("programme_decision", "approved_amount")
    assert (len(RULE_NAMES), RULE_NAMES[-2:]) == (28, ("stand_in", "stand_in_budget"))


def parts() -> dict[str, Any]:
    """The arguments of a plain authorization."""
    command, inputs = build.authorize(), build.inputs(card_seq=4, now_ms=build.NOW_MS)
    decision = authorize(command, inputs)
    reply: Reply = WireAnswer(
        decision.response_code, command.id, decision.approval_code, decision.approved_minor
    )
    return {"command": command, "inputs": inputs, "decision": decision, "reply": reply}


def stored(given: dict[str, Any], seq: int = 5, now_ms: int = build.NOW_MS) -> object:
    return compacted(given["command"], given["inputs"], given["decision"], given["reply"], seq, now_ms)


STAND_IN = StandIn("within_ceilings", "timeout", None, 1, 1, 2)
IN_FULL: dict[str, tuple[str, dict[str, Any]]] = {
    "a refund": ("command", {"kind": "refund"}),
    "an increment": ("command", {"references": ("n:1",)}),
    "further identity": ("command", {"wire": build.wire(1, further="x")}),
    "another clock": ("inputs", {"now_ms": build.NOW_MS + 1}),
    "another number": ("inputs", {"card_seq": 7}),
    "earlier rules": ("inputs", {"rules": 0}),
    "lapsed holds": ("inputs", {"lapsed_holds": ("x",)}),
    "a reversal before": ("inputs", {"reversed_early": True}),
    "a call with an answer and a trigger": (
        "inputs",
        {"endpoint_result": EndpointResult("approved", trigger="timeout")},
    ),
    "a call without a result": ("inputs", {"endpoint_result": EndpointResult()}),
    "a rule's reason": ("decision", {"decline_detail": "x"}),
    "a shadow rule": ("decision", {"shadow_matches": (("r", 1),)}),
    "a stand-in without a record": ("decision", {"decided_by": "stand_in"}),
    "a stand-in without a call": ("decision", {"stand_in": STAND_IN, "decided_by": "stand_in"}),
    "a stand-in by another decider": ("decision", {"stand_in": STAND_IN}),
    "an unknown step": ("decision", {"trace": (TraceStep("new_rule", "pass"),)}),
    "part of a day": ("decision", {"hold_expires_ms": build.NOW_MS + DAY_MS + 1}),
    "another reply": ("reply", {"approved_minor": 1}),
}


@pytest.mark.parametrize("case", IN_FULL)
def test_everything_else_is_stored_in_full(case: str) -> None:
    given = parts()
    assert stored(given) is not None
    name, changes = IN_FULL[case]
    given[name] = msgspec.structs.replace(given[name], **changes)
    assert stored(given) is None


def test_a_stand_in_that_does_not_follow_from_its_call_is_stored_in_full() -> None:
    result = EndpointResult(trigger="timeout", grant=Grant("within_ceilings", build.an_id(9), 5_000, 9_000))
    inputs = build.inputs(
        card_seq=4,
        now_ms=build.NOW_MS,
        decisioning="delegated",
        endpoint_result=result,
        declared_remaining_minor=9_999,
    )
    command = build.authorize()
    decision = authorize(command, inputs)
    assert decision.stand_in is not None
    reply = WireAnswer(decision.response_code, command.id, decision.approval_code, decision.approved_minor)
    given = {"command": command, "inputs": inputs, "decision": decision, "reply": reply}
    assert stored(given) is not None
    for name, value in (("used_minor", 1), ("limit_minor", None), ("exposure_minor", 0), ("outage_id", None)):
        changed = msgspec.structs.replace(decision.stand_in, **{name: value})
        other = msgspec.structs.replace(decision, stand_in=changed)
        assert stored(given | {"decision": other}) is None, name


def test_a_problem_is_stored_in_full() -> None:
    assert stored(parts() | {"reply": Problem(409, "x", "y")}) is None


def test_a_missing_configuration_is_an_error() -> None:
    each = recorded()[0]
    none: dict[str, Configuration] = {}
    with pytest.raises(KeyError):
        expanded(each.row, none.__getitem__)


def test_texts_in_full_stay_as_they_are() -> None:
    each = recorded()[0]
    row = each.row._replace(**each.full._asdict())
    none: dict[str, Configuration] = {}
    assert expanded(row, none.__getitem__) == each.full
