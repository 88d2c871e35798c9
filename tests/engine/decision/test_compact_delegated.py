"""The numbers of triggers and rules in stored rows, and results that have no compact form."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from engine.decision.compact_delegated import (
    STAND_IN_RULES,
    TRIGGERS,
    compact_result,
    decided_by,
    full_result,
    has_compact_form,
)
from engine.decision.delegation import EndpointResult
from engine.programmes.stand_in import Grant, Rule, StandIn, Trigger
from tests.support.engine import build

FIELDS: dict[type[msgspec.Struct], str] = {
    EndpointResult: "decision approved_minor trigger grant",
    Grant: "rule outage_id used_minor limit_minor",
    StandIn: "rule trigger outage_id exposure_minor used_minor limit_minor",
}
RESULTS = (
    EndpointResult("approved"),
    EndpointResult("approved", 700),
    EndpointResult("declined"),
    EndpointResult(trigger="timeout"),
    EndpointResult(trigger="connection_error", grant=Grant("not_triggered")),
    EndpointResult(trigger="invalid_response", grant=Grant("within_ceilings", build.an_id(1), 5, 9)),
    EndpointResult(trigger="timeout", grant=Grant("max_amount_exceeded", build.an_id(1), 0, 0)),
)


def test_numbers_of_triggers_and_rules_never_change() -> None:
    """A new trigger or rule is added at the end, here and to ``stand_in_trigger`` or ``stand_in_rule`` in a
    migration."""
    assert get_args(Trigger) == TRIGGERS == ("connection_error", "timeout", "invalid_response")
    assert set(get_args(Rule)) == set(STAND_IN_RULES)
    assert (len(STAND_IN_RULES), STAND_IN_RULES[0], STAND_IN_RULES[12]) == (
        13,
        "not_triggered",
        "within_ceilings",
    )


@pytest.mark.parametrize("struct", FIELDS, ids=lambda struct: struct.__name__)
def test_every_field_is_considered(struct: type[msgspec.Struct]) -> None:
    assert list(struct.__struct_fields__) == FIELDS[struct].split()


@pytest.mark.parametrize("result", RESULTS, ids=str)
def test_compact_results_give_the_exact_json(result: EndpointResult) -> None:
    assert has_compact_form(result)
    stored = msgspec.json.decode(msgspec.json.encode(compact_result(result)))
    assert full_result(stored) == msgspec.json.encode(result).decode()


def test_no_call_has_no_result() -> None:
    assert has_compact_form(None)
    assert compact_result(None) is None
    assert full_result(None) == "null"


@pytest.mark.parametrize(
    "result",
    [
        EndpointResult(),
        EndpointResult("approved", trigger="timeout"),
        EndpointResult("approved", grant=Grant("not_triggered")),
        EndpointResult(None, 7, "timeout"),
    ],
    ids=str,
)
def test_contradictory_results_have_no_compact_form(result: EndpointResult) -> None:
    assert not has_compact_form(result)


def test_deciders_name_the_party() -> None:
    assert [decided_by(each) for each in (None, "programme", *STAND_IN_RULES)] == [
        "platform",
        "programme",
        *["stand_in"] * len(STAND_IN_RULES),
    ]
