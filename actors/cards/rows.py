"""From what a command did to the rows that record it, in the column order of ``ops/migrations``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, get_args

import msgspec

from actors.cards.activation import CardActor
from actors.cards.answers import fingerprint_of
from actors.journal.contract import Rows
from engine.authorization.effects import (
    AuthorizationOpened,
    AuthorizationUpdated,
    BalanceDeclared,
    CardChanged,
    CardholderSet,
    CardIssued,
    Effect,
    HoldClosed,
    HoldLapsed,
    HoldPlaced,
    HoldResized,
    StandInRecorded,
    TombstoneSet,
    Transferred,
)
from engine.authorization.events import Event
from engine.authorization.evolve import ACCOUNT_CHANGES
from engine.authorization.executed import Executed
from engine.cards.account import Account
from engine.cards.authorization import Authorization, status
from engine.cards.card import Card
from engine.commands import Authorize, CardCommand

_encode = msgspec.json.Encoder().encode
_TAGS: Final = {kind: str(kind.__struct_config__.tag) for kind in get_args(CardCommand)}


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
    _write_effects(Writing(rows, card, actor.account, original, now_ms), executed.effects)
    write_events(rows, card.tenant_id, card.live, executed.events, now_ms)
    usage = (card.id, card.seq, card.day, card.day_count, card.day_amount_minor, card.cvv2_failures)
    rows.use(usage, seq_before)


def _write_effects(to: Writing, effects: tuple[Effect, ...]) -> None:
    """Add the rows of each effect, and those of the balance if it changed."""
    balance_changed = False
    for effect in effects:
        writer = _WRITERS.get(type(effect))
        if writer is not None:
            writer(to, effect)
        balance_changed = balance_changed or type(effect) in ACCOUNT_CHANGES
    if balance_changed and to.account is not None:
        to.rows.balance(_account(to.account), to.account.version - 1)


def _kind(command: CardCommand, executed: Executed) -> str:
    """The command's tag; an authorization that raised an earlier one is an increment."""
    if isinstance(command, Authorize) and executed.authorization_id != command.id:
        return "increment"
    return _TAGS[type(command)]


def write_events(rows: Rows, tenant_id: str, live: bool, events: tuple[Event, ...], now_ms: int) -> None:
    """Add the events of a command; their transaction id is the database's to give."""
    for event in events:
        rows.events.append((event.id, tenant_id, live, event.type, now_ms, event.data, None))


class Writing(msgspec.Struct, frozen=True, gc=False):
    """Where the effects of one command are written, and what they are about."""

    rows: Rows
    card: Card
    account: Account | None
    original: Authorization | None
    now_ms: int


def _opened(to: Writing, effect: AuthorizationOpened) -> None:
    to.rows.transactions.append(_transaction(effect, to.card, to.now_ms))


def _moved(to: Writing, effect: AuthorizationUpdated) -> None:
    assert to.original is not None, "only a follow-up moves an authorization"
    to.rows.changed_transactions[to.original.id] = _changed_transaction(effect, to.original, to.now_ms)


def _issued(to: Writing, effect: CardIssued) -> None:
    to.rows.cards[to.card.id] = _card(to.card)
    if effect.opened_account_id and to.account is not None:
        to.rows.balance(_account(to.account), 0)


def _changed(to: Writing, _effect: CardChanged | CardholderSet) -> None:
    to.rows.cards[to.card.id] = _card(to.card)


def _declared(to: Writing, effect: BalanceDeclared) -> None:
    declared = effect.declared
    row = (to.card.id, declared.balance_minor, declared.consumed_minor, declared.declared_ms)
    to.rows.declared[to.card.id] = row


def _stood_in(to: Writing, effect: StandInRecorded) -> None:
    to.rows.stand_ins.append(_stand_in(effect, to.card, to.now_ms))


def _buried(to: Writing, effect: TombstoneSet) -> None:
    to.rows.tombstones += [(to.card.id, reference, effect.recorded_ms) for reference in effect.references]


def _placed(to: Writing, effect: HoldPlaced) -> None:
    hold = effect.hold
    about = (hold.id, _funds(to).id, hold.card_id, hold.authorization_id)
    # The amount as it was placed: a later effect of the same batch has a row of its own.
    to.rows.holds.append((*about, hold.amount_minor, "held", hold.expires_ms))


def _resized(to: Writing, effect: HoldResized) -> None:
    to.rows.change_hold(effect.hold_id, effect.amount_minor, "held", effect.expires_ms)


def _closed(to: Writing, effect: HoldClosed) -> None:
    to.rows.change_hold(effect.hold_id, None, effect.state, None)


def _lapsed(to: Writing, effect: HoldLapsed) -> None:
    to.rows.lapse(effect.hold_id, effect.authorization_id, to.now_ms)


def _transferred(to: Writing, effect: Transferred) -> None:
    _write_transfer(to.rows, effect, _funds(to), to.now_ms)


def _funds(to: Writing) -> Account:
    assert to.account is not None, "only funded cards have balance effects"
    return to.account


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


def _changed_transaction(
    effect: AuthorizationUpdated, original: Authorization, now_ms: int
) -> tuple[Any, ...]:
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


def _stand_in(effect: StandInRecorded, card: Card, now_ms: int) -> tuple[Any, ...]:
    how = effect.stand_in
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


_WRITERS: Final[dict[type, Callable[[Writing, Any], None]]] = {
    AuthorizationOpened: _opened,
    AuthorizationUpdated: _moved,
    CardIssued: _issued,
    CardChanged: _changed,
    CardholderSet: _changed,
    BalanceDeclared: _declared,
    StandInRecorded: _stood_in,
    TombstoneSet: _buried,
    HoldPlaced: _placed,
    HoldResized: _resized,
    HoldClosed: _closed,
    HoldLapsed: _lapsed,
    Transferred: _transferred,
}
"""What each effect writes; counters have their row in any case."""
