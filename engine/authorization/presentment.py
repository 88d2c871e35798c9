"""Presentments (0220) in managed mode: captures, refunds and force posts."""

from __future__ import annotations

from typing import Literal

from engine.authorization.effects import (
    AuthorizationOpened,
    Effect,
    HoldClosed,
    HoldResized,
    UsageCounted,
)
from engine.authorization.follow_up import (
    INVALID_AMOUNT,
    NOT_PERMITTED,
    OK,
    SENDER_NOT_PERMITTED,
    WRONG_CURRENCY,
    FollowUpRecord,
    FollowUpResult,
    settlement_account_id,
    transfer,
    updated,
)
from engine.cards.account import Account
from engine.cards.authorization import Authorization, open_hold
from engine.cards.authorization_states import Event, permits, state_of
from engine.cards.card import Card
from engine.commands import Present
from engine.programmes.programme import ProgrammeConfig


def present(
    command: Present,
    card: Card,
    original: Authorization | None,
    account: Account | None,
    programme: ProgrammeConfig,
    day: str,
) -> FollowUpResult:
    """Post a sale or a refund; a sale without an approved authorization is a force post."""
    if command.amount_minor <= 0:
        return FollowUpResult(INVALID_AMOUNT)
    if command.currency != card.currency:
        return FollowUpResult(WRONG_CURRENCY)
    if account is None:
        return FollowUpResult(NOT_PERMITTED)
    matched = original if accepts(original, account, command.kind) else None
    if command.kind == "refund":
        return _present_refund(command, card, matched, programme, day)
    if matched is None and command.matched_only:
        return FollowUpResult(SENDER_NOT_PERMITTED)
    if matched is None:
        return _force_post(command, card, programme, day)
    return _capture(command, matched, account, programme)


def accepts(
    original: Authorization | None, account: Account | None, kind: Literal["purchase", "refund"]
) -> bool:
    """Whether a presentment of ``kind`` clears ``original``; otherwise it opens a transaction of its own."""
    event: Event = "refund_presentment" if kind == "refund" else "presentment"
    return original is not None and permits(state_of(original, account), event)


def _capture(
    command: Present, original: Authorization, account: Account, programme: ProgrammeConfig
) -> FollowUpResult:
    """Post the whole amount and draw it from the hold. The final presentment releases the rest of the
    hold."""
    hold = open_hold(original, account)
    posting = transfer(
        command.id, settlement_account_id(programme), "debit", command.amount_minor, original.id
    )
    if hold is None:
        left_minor = max(0, original.remainder_minor - command.amount_minor)
        update = updated(
            original,
            cleared_minor=command.amount_minor,
            held_minor=0,
            remainder_minor=left_minor,
            closed=original.closed or ("captured" if command.final or not left_minor else None),
        )
        record = FollowUpRecord("capture", command.amount_minor, 0, "late")
        return FollowUpResult(OK, (posting, update), record)
    left_minor = hold.amount_minor - min(hold.amount_minor, command.amount_minor)
    done = command.final or left_minor == 0
    drawn: Effect = (
        HoldClosed(hold.id, "captured") if done else HoldResized(hold.id, left_minor, hold.expires_ms)
    )
    held_minor = 0 if done else left_minor
    update = updated(
        original,
        cleared_minor=command.amount_minor,
        held_minor=held_minor,
        closed="captured" if done else None,
    )
    record = FollowUpRecord("capture", command.amount_minor, held_minor)
    return FollowUpResult(OK, (drawn, posting, update), record)


def _force_post(command: Present, card: Card, programme: ProgrammeConfig, day: str) -> FollowUpResult:
    """Post a sale without an approved authorization; it counts toward the day's amount."""
    effects = (
        AuthorizationOpened(unmatched(command, card, "force_post", day), 0),
        UsageCounted(day, command.amount_minor, 0),
        transfer(command.id, settlement_account_id(programme), "debit", command.amount_minor, command.id),
    )
    return FollowUpResult(OK, effects, FollowUpRecord("force_post", command.amount_minor))


def _present_refund(
    command: Present, card: Card, original: Authorization | None, programme: ProgrammeConfig, day: str
) -> FollowUpResult:
    """Post a refund, unless its authorization has credited it already."""
    if original is not None:
        return _present_authorized_refund(command, original, programme)
    effects = (
        AuthorizationOpened(unmatched(command, card, "refund", day), 0),
        transfer(command.id, settlement_account_id(programme), "credit", command.amount_minor, command.id),
    )
    return FollowUpResult(OK, effects, FollowUpRecord("refund", command.amount_minor))


def _present_authorized_refund(
    command: Present, original: Authorization, programme: ProgrammeConfig
) -> FollowUpResult:
    """Credit the part of the presented total that is not credited yet: it was reversed, or it exceeds the
    authorized amount. A refund can be presented in several parts."""
    credited_minor = original.approved_minor - original.reversed_minor
    missing_minor = max(0, original.cleared_minor + command.amount_minor - credited_minor)
    restored_minor = min(missing_minor, original.reversed_minor)
    update = updated(
        original,
        approved_minor=missing_minor - restored_minor,
        cleared_minor=command.amount_minor,
        reversed_minor=-restored_minor,
        held_minor=0,
    )
    if not missing_minor:
        return FollowUpResult(OK, (update,), FollowUpRecord("refund", 0, 0, "matched"))
    posting = transfer(command.id, settlement_account_id(programme), "credit", missing_minor, original.id)
    return FollowUpResult(OK, (posting, update), FollowUpRecord("refund", missing_minor, 0, "late"))


def unmatched(command: Present, card: Card, kind: Literal["force_post", "refund"], day: str) -> Authorization:
    """The transaction of a presentment without an approved authorization."""
    return Authorization(
        id=command.id,
        card_id=card.id,
        kind=kind,
        currency=command.currency,
        day=day,
        command_key=command.command_key,
        network_txn_id=command.wire.network_txn_id,
        requested_minor=command.amount_minor,
        approved_minor=command.amount_minor,
        cleared_minor=command.amount_minor,
        merchant_amount=command.merchant_amount,
    )
