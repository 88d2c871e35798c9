"""From what a command did to the rows that record it, in the column order of ``ops/migrations``."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from actors.cards.activation import CardActor
from actors.cards.answers import fingerprint_of
from actors.journal.contract import Rows
from engine.account import Account
from engine.authorization import Authorization, status
from engine.card import Card
from engine.commands import Authorize, CardCommand
from engine.effects import (
    AccountEffect,
    AuthorizationMoved,
    AuthorizationOpened,
    BalanceDeclared,
    CardChanged,
    CardholderSet,
    CardIssued,
    Effect,
    HoldClosed,
    HoldLapsed,
    HoldPlaced,
    HoldResized,
    StoodIn,
    TombstoneSet,
    Transferred,
)
from engine.events import Event
from engine.execute import Executed

_BALANCE_EFFECTS = get_args(AccountEffect)
_encode = msgspec.json.Encoder().encode


def write_command(
    rows: Rows,
    command: CardCommand,
    actor: CardActor,
    executed: Executed,
    original: Authorization | None,
    epoch: int,
    now_ms: int,
) -> None:
    """Add all rows of ``executed``, which was ``command`` on ``actor``; gives the command its ``seq``."""
    card = actor.card
    seq_before = card.seq
    card.seq = seq_before + 1
    rows.journal.append(
        (
            card.id,
            card.seq,
            epoch,
            command.command_key,
            fingerprint_of(command),
            _kind(command, executed),
            _encode(command).decode(),
            None if executed.inputs is None else _encode(executed.inputs).decode(),
            None if executed.outcome is None else _encode(executed.outcome).decode(),
            _encode(executed.reply).decode(),
            now_ms,
            executed.authorization_id,
        )
    )
    for effect in executed.effects:
        _write_effect(rows, effect, actor, original, now_ms)
    write_events(rows, card.tenant_id, card.live, executed.events, now_ms)
    usage = (card.id, card.seq, card.day, card.day_count, card.day_amount_minor, card.cvv2_failures)
    rows.use(usage, seq_before)


def _kind(command: CardCommand, executed: Executed) -> str:
    """The command's tag; an authorization that raised an earlier one is an increment."""
    if isinstance(command, Authorize) and executed.authorization_id != command.id:
        return "increment"
    return str(command.__struct_config__.tag)


def write_events(rows: Rows, tenant_id: str, live: bool, events: tuple[Event, ...], now_ms: int) -> None:
    """Add the events of a command; their transaction id is the database's to give."""
    for event in events:
        rows.events.append((event.id, tenant_id, live, event.type, now_ms, event.data, None))


def _write_effect(
    rows: Rows, effect: Effect, actor: CardActor, original: Authorization | None, now_ms: int
) -> None:
    card, account = actor.card, actor.account
    if isinstance(effect, AuthorizationOpened):
        rows.transactions.append(_transaction(effect, card, now_ms))
    elif isinstance(effect, AuthorizationMoved):
        assert original is not None, "only a follow-up moves an authorization"
        rows.changed_transactions[original.id] = _changed_transaction(effect, original, now_ms)
    elif isinstance(effect, CardIssued):
        rows.cards[card.id] = _card(card)
        if effect.opened_account_id and account is not None:
            rows.balance(_account(account), 0)
    elif isinstance(effect, CardChanged | CardholderSet):
        rows.cards[card.id] = _card(card)
    elif isinstance(effect, BalanceDeclared):
        declared = effect.declared
        rows.declared[card.id] = (
            card.id,
            declared.balance_minor,
            declared.consumed_minor,
            declared.declared_ms,
        )
    elif isinstance(effect, StoodIn):
        rows.stand_ins.append(_stand_in(effect, card, now_ms))
    elif isinstance(effect, TombstoneSet):
        rows.tombstones += [(card.id, reference, now_ms) for reference in effect.references]
    elif isinstance(effect, _BALANCE_EFFECTS):
        assert account is not None, "only funded cards have balance effects"
        _write_balance_effect(rows, effect, account, now_ms)
        rows.balance(_account(account), account.version - 1)


def _write_balance_effect(rows: Rows, effect: AccountEffect, account: Account, now_ms: int) -> None:
    if isinstance(effect, HoldPlaced):
        hold = effect.hold
        about = (hold.id, account.id, hold.card_id, hold.authorization_id)
        # The amount as it was placed: a later effect of the same batch has a row of its own.
        rows.holds.append((*about, hold.amount_minor, "held", hold.expires_ms))
    elif isinstance(effect, HoldResized):
        rows.change_hold(effect.hold_id, effect.amount_minor, "held", effect.expires_ms)
    elif isinstance(effect, HoldClosed):
        rows.change_hold(effect.hold_id, None, effect.state, None)
    elif isinstance(effect, HoldLapsed):
        rows.lapse(effect.hold_id, effect.authorization_id, now_ms)
    else:
        _write_transfer(rows, effect, account, now_ms)


def _write_transfer(rows: Rows, transfer: Transferred, account: Account, now_ms: int) -> None:
    accounts = (account.id, transfer.other_account_id)
    debited, credited = accounts if transfer.direction == "debit" else reversed(accounts)
    about = (transfer.amount_minor, account.currency, transfer.authorization_id, now_ms)
    rows.entries.append((transfer.debit_entry_id, transfer.transfer_id, debited, "debit", *about))
    rows.entries.append((transfer.credit_entry_id, transfer.transfer_id, credited, "credit", *about))


def _transaction(effect: AuthorizationOpened, card: Card, now_ms: int) -> tuple[Any, ...]:
    authorization = effect.authorization
    return (
        authorization.id,
        card.tenant_id,
        card.live,
        card.id,
        card.cardholder_id,
        card.programme_id,
        card.seq,
        authorization.kind,
        status(authorization, held=effect.held_minor > 0),
        authorization.hold_id,
        authorization.currency,
        authorization.requested_minor,
        authorization.approved_minor,
        effect.held_minor,
        authorization.cleared_minor,
        authorization.reversed_minor,
        authorization.decline_reason,
        now_ms,
        now_ms,
        authorization.network_txn_id,
        authorization.day,
        authorization.remainder_minor,
        authorization.closed,
    )


def _changed_transaction(effect: AuthorizationMoved, original: Authorization, now_ms: int) -> tuple[Any, ...]:
    """Only what can change matters: the update leaves the other columns alone."""
    unchanged = (None,) * 7
    return (
        original.id,
        *unchanged,
        status(original, held=effect.held_minor > 0),
        effect.hold_id,
        None,
        None,
        effect.approved_minor,
        effect.held_minor,
        effect.cleared_minor,
        effect.reversed_minor,
        effect.decline_reason,
        None,
        now_ms,
        None,
        None,
        effect.remainder_minor,
        effect.closed,
    )


def _stand_in(effect: StoodIn, card: Card, now_ms: int) -> tuple[Any, ...]:
    how = effect.how
    return (
        effect.id,
        card.tenant_id,
        card.live,
        card.programme_id,
        card.id,
        effect.authorization_id,
        how.outage_id,
        now_ms,
        effect.decision,
        how.rule,
        how.trigger,
        effect.amount_minor,
        effect.currency,
        effect.mcc,
        how.exposure_minor,
        how.used_minor,
        how.limit_minor,
        effect.response_code,
        effect.stan,
        effect.rrn,
    )


def _card(card: Card) -> tuple[Any, ...]:
    return (
        card.id,
        card.tenant_id,
        card.live,
        card.programme_id,
        card.card_product_id,
        card.cardholder_id,
        card.account_id,
        card.network,
        card.currency,
        card.iin,
        card.last4,
        card.pan_ref,
        card.exp_month,
        card.exp_year,
        card.cvk_generation,
        card.state,
        card.state_reason,
        _encode(card.controls).decode(),
        card.cardholder_active,
        card.created_ms,
    )


def _account(account: Account) -> tuple[Any, ...]:
    return (
        account.id,
        account.tenant_id,
        account.live,
        account.programme_id,
        "card",
        account.currency,
        account.posted_minor,
        account.held_minor,
        account.version,
    )
