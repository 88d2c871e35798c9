"""Posting instructions: what a programme that keeps its own ledger is told to post (spec 6.3, 6.4; contract,
section 9).

An approval *issues* an instruction, each presentment *creates* a clearing instruction, and what will not be
presented any more is *released*: by a reversal, or by a last presentment for less. Deliveries come in any
order, so every amount is what this one event adds or takes away; issued less cleared less released is what is
still to come.
"""

from __future__ import annotations

from typing import Any, Literal

from engine.authorization.effects import AuthorizationOpened, Counted, Effect, IncrementSet
from engine.authorization.events import Event, event
from engine.authorization.lifecycle import LifecycleResult
from engine.cards.authorization import Authorization, relayed_minor
from engine.commands import Advise, Authorize, Present, Reverse
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
    """One instruction for an approval of anything, and its release where the reversal has come first."""
    if not decision.approved_minor:
        return ()
    opened = _opened(effects)
    if opened is not None:
        type_: InstructionType = "refund" if command.kind == "refund" else "authorization"
        about, given_back_minor = opened, opened.reversed_minor
    else:
        assert original is not None, "an approval opens an authorization or raises one"
        left_minor = next(effect.left_minor for effect in effects if isinstance(effect, IncrementSet))
        type_, about, given_back_minor = "increment", original, decision.approved_minor - left_minor
    issued = _issued(command, about, type_, decision.approved_minor, decision.approval_code, now_ms)
    if not given_back_minor:
        return (issued,)
    return (issued, _released(command, about, given_back_minor, now_ms))


def of_follow_up(
    command: Reverse | Present | Advise, outcome: LifecycleResult, original: Authorization | None, now_ms: int
) -> tuple[Event, ...]:
    """What a reversal, a presentment or an advice asks the programme to post; nothing, where nothing has
    changed."""
    about = _opened(outcome.effects) or original
    if outcome.record is None or about is None:
        return ()
    if isinstance(command, Present):
        created = _created(command, about, now_ms)
        rest_minor = outcome.record.released_minor
        return (created, _released(command, about, rest_minor, now_ms)) if rest_minor else (created,)
    if isinstance(command, Advise):
        return _of_advice(command, outcome, about, now_ms)
    given_back_minor = outcome.record.amount_minor
    return (_released(command, about, given_back_minor, now_ms),) if given_back_minor else ()


def _of_advice(
    command: Advise, outcome: LifecycleResult, about: Authorization, now_ms: int
) -> tuple[Event, ...]:
    """The network's own approval is one like any other; about an earlier one, the difference is told."""
    opened = _opened(outcome.effects)
    if opened is not None:
        if not opened.approved_minor:
            return ()
        issued = _issued(
            command, about, "authorization", opened.approved_minor, command.approval_code, now_ms
        )
        if not opened.reversed_minor:
            return (issued,)
        return (issued, _released(command, about, opened.reversed_minor, now_ms))
    counted = [effect for effect in outcome.effects if isinstance(effect, Counted)]
    difference_minor = sum(effect.amount_minor for effect in counted)
    if not difference_minor:
        return ()
    if difference_minor < 0:
        return (_released(command, about, -difference_minor, now_ms),)
    # It counts as one more where it had been declined here.
    type_: InstructionType = "authorization" if any(effect.count for effect in counted) else "increment"
    return (_issued(command, about, type_, difference_minor, command.approval_code, now_ms),)


def _opened(effects: tuple[Effect, ...]) -> Authorization | None:
    return next((effect.authorization for effect in effects if isinstance(effect, AuthorizationOpened)), None)


def _issued(
    command: Authorize | Advise,
    about: Authorization,
    type_: InstructionType,
    amount_minor: int,
    approval_code: str | None,
    now_ms: int,
) -> Event:
    data = {
        "type": type_,
        "direction": "credit" if type_ == "refund" else "debit",
        "authorization_id": about.id,
        "card_id": about.card_id,
        "amount": format_minor(amount_minor),
        "currency": about.currency,
        "approval_code": approval_code,
        "network_ref": _network_ref(command, about),
        "mcc": command.mcc,
        "merchant": _merchant(command),
        "occurred_at": to_text(now_ms),
    }
    return event(derive(command.id, Derived.EVENT_SECOND), "authorization.posting_instruction.issued", data)


def _released(
    command: Authorize | Reverse | Present | Advise, about: Authorization, amount_minor: int, now_ms: int
) -> Event:
    """``direction`` is against that of the instruction; ``remaining_amount`` is what is still to come after
    it."""
    data = {
        "authorization_id": about.id,
        "card_id": about.card_id,
        "direction": "debit" if about.kind == "refund" else "credit",
        "amount": format_minor(amount_minor),
        "remaining_amount": format_minor(relayed_minor(about)),
        "currency": about.currency,
        "network_ref": _network_ref(command, about),
        "occurred_at": to_text(now_ms),
    }
    return event(derive(command.id, Derived.EVENT_FOURTH), "authorization.posting_instruction.released", data)


def _created(command: Present, about: Authorization, now_ms: int) -> Event:
    data = {
        "authorization_id": about.id,
        "card_id": about.card_id,
        "hold_id": None,
        "arn": command.arn,
        "sequence": command.sequence,
        "amount": format_minor(command.amount_minor),
        "currency": command.currency,
        "direction": "credit" if command.kind == "refund" else "debit",
        "mcc": command.mcc,
        "merchant": _merchant(command),
        "network_ref": _network_ref(command, about),
        "occurred_at": to_text(now_ms),
    }
    return event(derive(command.id, Derived.EVENT_FIRST), "clearing.posting_instruction.created", data)


def _merchant(command: Authorize | Present | Advise) -> dict[str, Any]:
    return {"name": command.merchant_name, "country": command.merchant_country}


def _network_ref(command: Authorize | Reverse | Present | Advise, about: Authorization) -> str | None:
    """The scheme's id for the whole life, if any message of it has said one."""
    return command.wire.network_txn_id or about.network_txn_id
