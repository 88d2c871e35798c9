"""Posting instructions to a programme that keeps its own ledger (``ops/docs/GATEWAY.md``).

An approval *issues* an instruction, each presentment *creates* a clearing instruction, and a reversal or a
final presentment for less *releases* the amount that will not be presented. Deliveries arrive in any order,
so each event carries a difference: issued less cleared less released is the open amount.
"""

from __future__ import annotations

from typing import Any, Literal

from engine.authorization.effects import AuthorizationOpened, Effect, IncrementSet, UsageCounted
from engine.authorization.events import Event, event
from engine.authorization.follow_up import FollowUpResult
from engine.cards.authorization import Authorization, gateway_open_minor
from engine.commands import Advise, Authorize, Present, Reverse
from engine.currencies import merchant_members
from engine.decision.decide import Decision
from engine.ids import Derived, derive
from engine.instant import to_text
from engine.money import format_minor

InstructionType = Literal["authorization", "increment", "refund"]


def of_decision(
    command: Authorize,
    decision: Decision,
    effects: tuple[Effect, ...],
    original: Authorization | None,
    now_ms: int,
) -> tuple[Event, ...]:
    """The instruction for an approval, and its release if the reversal came first."""
    if not decision.approved_minor:
        return ()
    opened = _opened(effects)
    if opened is not None:
        type_: InstructionType = "refund" if command.kind == "refund" else "authorization"
        authorization, released_minor = opened, opened.reversed_minor
    else:
        assert original is not None, "an approval opens an authorization or raises one"
        left_minor = next(effect.left_minor for effect in effects if isinstance(effect, IncrementSet))
        type_, authorization, released_minor = "increment", original, decision.approved_minor - left_minor
    issued = _issued(command, authorization, type_, decision.approved_minor, decision.approval_code, now_ms)
    if not released_minor:
        return (issued,)
    return (issued, _released(command, authorization, released_minor, now_ms))


def of_follow_up(
    command: Reverse | Present | Advise, result: FollowUpResult, original: Authorization | None, now_ms: int
) -> tuple[Event, ...]:
    """The instructions for a reversal, a presentment or an advice; none if it changed nothing."""
    authorization = _opened(result.effects) or original
    if result.record is None or authorization is None:
        return ()
    if isinstance(command, Present):
        created = _created(command, authorization, now_ms)
        rest_minor = result.record.released_minor
        return (created, _released(command, authorization, rest_minor, now_ms)) if rest_minor else (created,)
    if isinstance(command, Advise):
        return _of_advice(command, result, authorization, now_ms)
    released_minor = result.record.amount_minor
    return (_released(command, authorization, released_minor, now_ms),) if released_minor else ()


def _of_advice(
    command: Advise, result: FollowUpResult, authorization: Authorization, now_ms: int
) -> tuple[Event, ...]:
    """The instruction for a network's own approval; if it corrects an earlier approval, for the
    difference."""
    opened = _opened(result.effects)
    if opened is not None:
        if not opened.approved_minor:
            return ()
        issued = _issued(
            command, authorization, "authorization", opened.approved_minor, command.approval_code, now_ms
        )
        if not opened.reversed_minor:
            return (issued,)
        return (issued, _released(command, authorization, opened.reversed_minor, now_ms))
    counted = [effect for effect in result.effects if isinstance(effect, UsageCounted)]
    difference_minor = sum(effect.amount_minor for effect in counted)
    if not difference_minor:
        return ()
    if difference_minor < 0:
        return (_released(command, authorization, -difference_minor, now_ms),)
    # A purchase that the platform had declined counts as a new one.
    type_: InstructionType = "authorization" if any(effect.count for effect in counted) else "increment"
    return (_issued(command, authorization, type_, difference_minor, command.approval_code, now_ms),)


def _opened(effects: tuple[Effect, ...]) -> Authorization | None:
    return next((effect.authorization for effect in effects if isinstance(effect, AuthorizationOpened)), None)


def _issued(
    command: Authorize | Advise,
    authorization: Authorization,
    type_: InstructionType,
    amount_minor: int,
    approval_code: str | None,
    now_ms: int,
) -> Event:
    data = {
        "type": type_,
        "direction": "credit" if type_ == "refund" else "debit",
        "authorization_id": authorization.id,
        "card_id": authorization.card_id,
        "amount": format_minor(amount_minor),
        "currency": authorization.currency,
        "approval_code": approval_code,
        "network_ref": _network_ref(command, authorization),
        "mcc": command.mcc,
        "merchant": _merchant(command),
        "occurred_at": to_text(now_ms),
    }
    data |= merchant_members(command.merchant_amount)
    return event(derive(command.id, Derived.EVENT_SECOND), "authorization.posting_instruction.issued", data)


def _released(
    command: Authorize | Reverse | Present | Advise,
    authorization: Authorization,
    amount_minor: int,
    now_ms: int,
) -> Event:
    """``direction`` is opposite to that of the instruction; ``remaining_amount`` is the open amount
    afterwards."""
    data = {
        "authorization_id": authorization.id,
        "card_id": authorization.card_id,
        "direction": "debit" if authorization.kind == "refund" else "credit",
        "amount": format_minor(amount_minor),
        "remaining_amount": format_minor(gateway_open_minor(authorization)),
        "currency": authorization.currency,
        "network_ref": _network_ref(command, authorization),
        "occurred_at": to_text(now_ms),
    }
    return event(derive(command.id, Derived.EVENT_FOURTH), "authorization.posting_instruction.released", data)


def _created(command: Present, authorization: Authorization, now_ms: int) -> Event:
    data = {
        "authorization_id": authorization.id,
        "card_id": authorization.card_id,
        "hold_id": None,
        "arn": command.arn,
        "sequence": command.sequence,
        "amount": format_minor(command.amount_minor),
        "currency": command.currency,
        "direction": "credit" if command.kind == "refund" else "debit",
        "mcc": command.mcc,
        "merchant": _merchant(command),
        "network_ref": _network_ref(command, authorization),
        "occurred_at": to_text(now_ms),
    }
    data |= merchant_members(command.merchant_amount)
    return event(derive(command.id, Derived.EVENT_FIRST), "clearing.posting_instruction.created", data)


def _merchant(command: Authorize | Present | Advise) -> dict[str, Any]:
    return {"name": command.merchant_name, "country": command.merchant_country}


def _network_ref(command: Authorize | Reverse | Present | Advise, authorization: Authorization) -> str | None:
    """The network transaction id, if the message or its original carries one."""
    return command.wire.network_txn_id or authorization.network_txn_id
