"""What compact texts add for programmes that decide themselves (``engine.decision.compact``).

Inputs of a decision after a call to the programme's endpoint have two more values: the result of the call,
and the unused part of the card's declared balance. The decision names its decider: ``programme``, or the rule
of the stand-in. Everything else of a stand-in follows from the result of the call.

The result is an array: the programme's decision and the amount that it approved; or the numbers of the
trigger and of the rule of the grant, the id of the outage, and the used and the whole budget. Stored rows are
read for ever, so no number changes.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from engine.decision.decide import Decision
from engine.decision.delegation import EndpointResult
from engine.programmes.stand_in import Grant, StandIn

TRIGGERS: Final = ("connection_error", "timeout", "invalid_response")
"""Triggers by their number in stored inputs."""
STAND_IN_RULES: Final = (
    *(
        "not_triggered",
        "mode_disabled",
        "mode_decline_all",
        "max_amount_not_set",
        "max_total_exposure_not_set",
    ),
    *("currency_mismatch", "mcc_not_permitted", "declared_balance_missing", "max_amount_exceeded"),
    *("declared_balance_exceeded", "max_total_exposure_exceeded", "budget_unreachable", "within_ceilings"),
)
"""Rules of a grant by their number in stored inputs."""
PROGRAMME: Final = "programme"
"""The decider of a decision by the programme; that of a stand-in is its rule."""
_UNREACHABLE: Final = Grant("budget_unreachable")
"""Stands for the grant of an owner that did not answer (``engine.decision.programme_rule``)."""
_TRIGGER_NUMBERS: Final = {trigger: number for number, trigger in enumerate(TRIGGERS)}
_RULE_NUMBERS: Final = {rule: number for number, rule in enumerate(STAND_IN_RULES)}

_encode = msgspec.json.Encoder().encode

Result = tuple[str | int | None, ...] | None
"""The compact form of an ``EndpointResult``; ``None`` before the call."""


def has_compact_form(result: EndpointResult | None) -> bool:
    """Whether ``compact_result`` keeps all of ``result``: it is an answer or a trigger, not both."""
    if result is None:
        return True
    if result.decision is not None:
        return result.trigger is None and result.grant is None
    return result.trigger is not None and result.approved_minor is None


def compact_result(result: EndpointResult | None) -> Result:
    """The compact form of ``result``, which has one."""
    if result is None:
        return None
    if result.decision is not None:
        approved_minor = result.approved_minor
        return (result.decision,) if approved_minor is None else (result.decision, approved_minor)
    assert result.trigger is not None, "has_compact_form"
    trigger, grant = _TRIGGER_NUMBERS[result.trigger], result.grant
    if grant is None:
        return (trigger,)
    return (trigger, _RULE_NUMBERS[grant.rule], grant.outage_id, grant.used_minor, grant.limit_minor)


def full_result(result: list[Any] | None) -> str:
    """The JSON of the ``EndpointResult`` that ``result`` stands for."""
    if result is None:
        return "null"
    first, *others = result
    if isinstance(first, str):
        return _encode((first, others[0] if others else None, None, None)).decode()
    grant = None
    if others:
        rule, outage_id, used_minor, limit_minor = others
        grant = {"rule": STAND_IN_RULES[rule]}
        grant |= {} if outage_id is None else {"outage_id": outage_id}
        grant |= {"used_minor": used_minor} if used_minor else {}
        grant |= {} if limit_minor is None else {"limit_minor": limit_minor}
    return _encode((None, None, TRIGGERS[first], grant)).decode()


def decider_of(decision: Decision) -> str | None:
    """The decider that a compact decision names; ``None`` if the platform decided."""
    if decision.stand_in is not None:
        return decision.stand_in.rule
    return PROGRAMME if decision.decided_by == PROGRAMME else None


def decided_by(decider: str | None) -> str:
    """The party that ``decider`` names."""
    if decider is None:
        return "platform"
    return PROGRAMME if decider == PROGRAMME else "stand_in"


def follows_from(result: EndpointResult | None, decision: Decision) -> bool:
    """Whether ``full_stand_in`` gives the stand-in of ``decision``, after a call with this result."""
    stand_in = decision.stand_in
    if stand_in is None:
        return decision.decided_by != "stand_in"
    if decision.decided_by != "stand_in" or result is None or result.trigger is None:
        return False
    grant = result.grant or _UNREACHABLE
    budget = (grant.outage_id, decision.approved_minor, grant.used_minor, grant.limit_minor)
    return stand_in == StandIn(stand_in.rule, result.trigger, *budget)


def full_stand_in(decider: str | None, result: list[Any] | None, approved_minor: int) -> str:
    """The member ``stand_in`` of a decision after a comma; empty if it has none."""
    if decider is None or decider == PROGRAMME:
        return ""
    assert result is not None, "a stand-in follows a call"
    trigger, *grant = result
    _, outage_id, used_minor, limit_minor = grant or (None, None, 0, None)
    members = {
        "rule": decider,
        "trigger": TRIGGERS[trigger],
        "outage_id": outage_id,
        "exposure_minor": approved_minor,
        "used_minor": used_minor,
        "limit_minor": limit_minor,
    }
    return f',"stand_in":{_encode(members).decode()}'
