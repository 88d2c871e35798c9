"""From what a command did to the rows that record it, in the column order of ``ops/migrations``."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.journal.contract import Rows
from engine.account import Account
from engine.card import Card
from engine.commands import Authorize, CardCommand
from engine.effects import CardChanged, CardIssued, Credited, Effect, HoldLapsed, HoldPlaced
from engine.events import Event
from engine.execute import Executed
from engine.hold import Hold
from engine.ids import Derived, derive

_encode = msgspec.json.Encoder().encode


def write_command(
    rows: Rows,
    command: CardCommand,
    card: Card,
    account: Account | None,
    executed: Executed,
    epoch: int,
    now_ms: int,
) -> None:
    """Add all rows of ``executed``, which was ``command`` on ``card``; gives the command its ``seq``."""
    seq_before = card.seq
    card.seq = seq_before + 1
    rows.journal.append(
        (
            card.id,
            card.seq,
            epoch,
            command.command_key,
            command.fingerprint if isinstance(command, Authorize) else None,
            command.__struct_config__.tag,
            _encode(command).decode(),
            None if executed.inputs is None else _encode(executed.inputs).decode(),
            None if executed.decision is None else _encode(executed.decision).decode(),
            _encode(executed.reply).decode(),
            now_ms,
        )
    )
    if isinstance(command, Authorize):
        rows.transactions.append(_transaction(command, card, executed, now_ms))
    for effect in executed.effects:
        _write_effect(rows, effect, card, account, now_ms)
    write_events(rows, card.tenant_id, card.live, executed.events, now_ms)
    usage = (card.id, card.seq, card.day, card.day_count, card.day_amount_minor, card.cvv2_failures)
    rows.use(usage, seq_before)


def write_events(rows: Rows, tenant_id: str, live: bool, events: tuple[Event, ...], now_ms: int) -> None:
    """Add the events of a command; their transaction id is the database's to give."""
    for event in events:
        rows.events.append((event.id, tenant_id, live, event.type, now_ms, event.data, None))


def _write_effect(rows: Rows, effect: Effect, card: Card, account: Account | None, now_ms: int) -> None:
    if isinstance(effect, CardIssued):
        rows.cards[card.id] = _card(card)
        if effect.opened_account_id and account is not None:
            rows.balance(_account(account), 0)
    elif isinstance(effect, CardChanged):
        rows.cards[card.id] = _card(card)
    elif isinstance(effect, HoldPlaced | HoldLapsed | Credited):
        assert account is not None, "only funded cards have balance effects"
        _write_balance_effect(rows, effect, account, now_ms)
        rows.balance(_account(account), account.version - 1)


def _write_balance_effect(
    rows: Rows, effect: HoldPlaced | HoldLapsed | Credited, account: Account, now_ms: int
) -> None:
    if isinstance(effect, HoldPlaced):
        rows.holds.append(_hold(effect.hold, account, "held"))
    elif isinstance(effect, HoldLapsed):
        rows.closed_holds.append(_hold(effect.hold, account, "lapsed"))
        rows.changed_transactions[effect.authorization_id] = _lapsed_transaction(
            effect.authorization_id, now_ms
        )
    else:
        about = (effect.amount_minor, account.currency, effect.authorization_id, now_ms)
        rows.entries.append(
            (effect.debit_entry_id, effect.transfer_id, effect.from_account_id, "debit", *about)
        )
        rows.entries.append((effect.credit_entry_id, effect.transfer_id, account.id, "credit", *about))


def _transaction(command: Authorize, card: Card, executed: Executed, now_ms: int) -> tuple[Any, ...]:
    decision = executed.decision
    assert decision is not None
    held = any(isinstance(effect, HoldPlaced) for effect in executed.effects)
    return (
        command.id,
        card.tenant_id,
        card.live,
        card.id,
        card.cardholder_id,
        card.programme_id,
        card.seq,
        "verification" if command.amount_minor == 0 and command.kind == "purchase" else command.kind,
        _status(command, decision.reason),
        derive(command.id, Derived.HOLD) if held else None,
        command.currency,
        command.amount_minor,
        decision.approved_minor,
        decision.approved_minor if held else 0,
        0,
        0,
        decision.reason,
        now_ms,
        now_ms,
    )


def _status(command: Authorize, reason: str | None) -> str:
    if reason:
        return "declined"
    return "posted" if command.kind == "refund" or command.amount_minor == 0 else "pending"


def _lapsed_transaction(id_: str, now_ms: int) -> tuple[Any, ...]:
    """Only status, held_minor and updated_at matter: nothing of a hold that lapses whole was cleared or
    reversed."""
    nothing = (None,) * 7
    return (id_, *nothing, "lapsed", None, None, None, None, 0, 0, 0, None, None, now_ms)


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


def _hold(hold: Hold, account: Account, state: str) -> tuple[Any, ...]:
    return (hold.id, account.id, hold.card_id, hold.amount_minor, state, hold.expires_ms)
