"""Replay of decisions: the decision is a pure function, so its stored inputs reproduce the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from api.http.fields import ShownAmount
from api.http.validation import View
from api.transactions.views import RiskView, StepView, decode_decision
from engine.commands import Authorize
from engine.decision.decide import Decision, authorize, decision_view
from engine.decision.recorded import decode_inputs
from engine.money import format_minor

_command = msgspec.json.Decoder(Authorize).decode
_encode = msgspec.json.Encoder().encode


class DecisionView(View):
    """A decision, with every rule that it evaluated."""

    decision: Literal["approved", "declined"]
    decline_reason: str | None
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


def replay(decided: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
    """Compare stored decisions with decisions recomputed from their stored commands and inputs. ``decided``
    holds command, inputs and decision of the authorization, then of its increments.
    """
    first, *increments = [_compare(*each) for each in decided]
    identical = all(each["identical"] for each in (first, *increments))
    return first | {"identical": identical, "increments": increments}


def _compare(command: str, inputs: str, decision: str) -> dict[str, Any]:
    recomputed = authorize(_command(command), decode_inputs(inputs))
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
