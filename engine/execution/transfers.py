"""Loads, transfers and their reversals: money between an account and its programme's funding source.

An account shares its shard with the card that opened it, so a transfer is a command on that card. Transfers
are possible in every state of the card and of the programme: a terminated card's balance can be paid out.
"""

from __future__ import annotations

from typing import Final

import msgspec

from engine.authorization.effects import Transferred
from engine.authorization.events import entry_posted
from engine.authorization.executed import CommandContext, Executed, apply, lapse_expired_holds
from engine.authorization.follow_up import transfer
from engine.cards.account import Account, available_minor
from engine.commands import Load, ReverseTransfer, Transfer
from engine.ids import Derived, derive
from engine.limits import AMOUNT_MINOR_MAX
from engine.money import format_minor
from engine.replies import Done, Problem
from engine.transfer import OPPOSITE, Direction, PostedTransfer, transfer_view

replace = msgspec.structs.replace
TransferCommand = Load | Transfer | ReverseTransfer

_NOT_FUNDED: Final = Problem(409, "card-not-funded", "The card has no funding account.")
_OTHER_ACCOUNT: Final = Problem(404, "not-found", "There is no such account.")
_CURRENCY: Final = Problem(400, "currency-mismatch", "The amount is not in the currency of the account.")
_LIMIT: Final = Problem(409, "balance-limit-exceeded", "The balance would exceed what can be kept.")
_INSUFFICIENT: Final = Problem(409, "insufficient-funds", "The debit exceeds the available balance.")


def execute_transfer(command: TransferCommand, context: CommandContext, now_ms: int) -> Executed:
    """Post ``command``, or refuse it without a change."""
    order, account = _order_of(command, context), context.account
    if account is None:
        return Executed(_NOT_FUNDED if isinstance(command, Load) else _OTHER_ACCOUNT)
    refusal = _refusal(order, account, now_ms)
    if refusal is not None:
        return Executed(refusal)
    lapsed = lapse_expired_holds(context, now_ms)
    source = derive(context.programme.id, Derived.FUNDING_SOURCE)
    posted = transfer(command.id, source, order.direction, order.amount_minor, None)
    apply(context, lapsed, (posted,))
    event = entry_posted(command.id, posted, account, now_ms)
    return Executed(_reply(command, account, posted, now_ms), True, (*lapsed, posted), (event,))


class _Order(msgspec.Struct, frozen=True, gc=False):
    """The entry that a command orders on its account."""

    account_id: str | None
    direction: Direction
    amount_minor: int
    currency: str
    allow_negative: bool


def _order_of(command: TransferCommand, context: CommandContext) -> _Order:
    if isinstance(command, Load):
        return _Order(context.card.account_id, "credit", command.amount_minor, command.currency, False)
    allowed = command.allow_negative
    if isinstance(command, Transfer):
        return _Order(command.account_id, command.direction, command.amount_minor, command.currency, allowed)
    posted = command.transfer
    opposite = OPPOSITE[posted.direction]
    return _Order(posted.account_id, opposite, posted.amount_minor, posted.currency, allowed)


def _refusal(order: _Order, account: Account, now_ms: int) -> Problem | None:
    """The first rule that ``order`` breaks."""
    debit = order.direction == "debit"
    after_minor = account.posted_minor + (-order.amount_minor if debit else order.amount_minor)
    if order.account_id != account.id:
        return _OTHER_ACCOUNT
    if order.currency != account.currency:
        return _CURRENCY
    if debit and not order.allow_negative and order.amount_minor > available_minor(account, now_ms):
        return _INSUFFICIENT
    return _LIMIT if abs(after_minor) > AMOUNT_MINOR_MAX else None


def _reply(command: TransferCommand, account: Account, posted: Transferred, now_ms: int) -> Done:
    if isinstance(command, Load):
        body = {
            "entry_id": posted.credit_entry_id,
            "account_id": account.id,
            "amount": {"amount": format_minor(command.amount_minor), "currency": account.currency},
            "available": format_minor(account.posted_minor - account.held_minor),
        }
        return Done(201, body)
    if isinstance(command, ReverseTransfer):
        reversed_ = replace(command.transfer, reversal_id=posted.transfer_id, reversed_ms=now_ms)
        return Done(200, transfer_view(reversed_))
    return Done(201, transfer_view(_posted_transfer(command, account, posted, now_ms)))


def _posted_transfer(command: Transfer, account: Account, posted: Transferred, now_ms: int) -> PostedTransfer:
    return PostedTransfer(
        id=posted.transfer_id,
        account_id=account.id,
        programme_id=account.programme_id,
        direction=command.direction,
        kind=command.kind,
        amount_minor=command.amount_minor,
        currency=command.currency,
        external_ref=command.external_ref,
        description=command.description,
        metadata=command.metadata,
        created_ms=now_ms,
    )
