"""Replay of decisions: the decision is a pure function, so its stored inputs reproduce the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import asyncpg
import msgspec

from actors.journal.rule_versions import load_rule_versions
from api.database.pool import Connection
from api.http.fields import ShownAmount
from api.http.validation import View
from api.transactions.views import RiskView, StepView, decode_decision
from engine.commands import Authorize
from engine.decision.decide import Decision, authorize, decision_view
from engine.decision.inputs import Inputs
from engine.decision.recorded import decode_inputs
from engine.money import format_minor
from engine.rules.evaluate import Versions, recorded_rules
from engine.rules.observed import RuleName, RulesInForce

_command = msgspec.json.Decoder(Authorize).decode
_encode = msgspec.json.Encoder().encode


class DecisionView(View):
    """A decision, with every rule that it evaluated."""

    decision: Literal["approved", "declined"]
    decline_reason: str | None
    decline_detail: str | None
    """The reason of the authorization rule that declined."""
    decided_by: Literal["platform", "programme", "stand_in"]
    approved_amount: ShownAmount
    approval_code: str | None
    response_code: str
    day: str
    """The day in the programme's time zone for which the decision counts toward daily limits."""
    risk: RiskView
    trace: list[StepView]


class IncrementReplayView(View):
    """The comparison for one increment."""

    identical: bool
    recorded: DecisionView
    recomputed: DecisionView


class ReplayView(View):
    """The recorded decision, the decision recomputed from the stored inputs, and whether both are equal byte
    for byte; the same for every increment.
    """

    identical: bool
    recorded: DecisionView
    recomputed: DecisionView
    increments: list[IncrementReplayView]


class Decided(NamedTuple):
    """A stored decision."""

    command: Authorize
    inputs: Inputs
    decision: str
    """JSON."""


def decided_of(rows: Iterable[asyncpg.Record]) -> list[Decided]:
    """The decisions of rows of the journal; rows without inputs have none."""
    return [
        Decided(_command(row["command"]), decode_inputs(row["inputs"]), row["decision"])
        for row in rows
        if row["inputs"]
    ]


async def rules_of(connection: Connection, decided: Iterable[Decided]) -> Versions:
    """The versions of authorization rules that were in force for ``decided``."""
    names = [name for each in decided for name in _names(each.inputs.rules_in_force)]
    return await load_rule_versions(connection, names)


def _names(in_force: RulesInForce | None) -> tuple[RuleName, ...]:
    return () if in_force is None else (*in_force.versions, *in_force.shadow_versions)


def replay(decided: Sequence[Decided], rules: Versions) -> dict[str, Any]:
    """Compare stored decisions with decisions recomputed from their stored commands and inputs. ``decided``
    holds the decision on the authorization, then those on its increments; ``rules`` is from ``rules_of``.
    """
    first, *increments = [_compare(each, rules) for each in decided]
    identical = all(each["identical"] for each in (first, *increments))
    return first | {"identical": identical, "increments": increments}


def _compare(decided: Decided, rules: Versions) -> dict[str, Any]:
    command, inputs, decision = decided
    recomputed = authorize(command, inputs, recorded_rules(inputs.rules_in_force, rules))
    return {
        "identical": _encode(recomputed) == decision.encode(),
        "recorded": show_decision(decode_decision(decision)),
        "recomputed": show_decision(recomputed),
    }


def show_decision(decided: Decision) -> dict[str, Any]:
    """A decision as a ``DecisionView``."""
    return {
        **decision_view(decided),
        "approved_amount": format_minor(decided.approved_minor),
        "approval_code": decided.approval_code,
        "response_code": decided.response_code,
        "day": decided.day,
    }
