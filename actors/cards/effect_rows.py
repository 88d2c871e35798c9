"""The rows that record the effects of a card command: one writer for each kind of effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from actors.cards.state_rows import account_row, card_row, changed_transaction_row, transaction_row
from actors.journal.contract import Rows
from actors.journal.rows import (
    DeclaredRow,
    EntryRow,
    HoldRow,
    ReplacementRow,
    StandInRow,
    TombstoneRow,
    new_row,
)
from actors.journal.rule_rows import rule_row
from engine.authorization.effects import (
    AuthorizationOpened,
    AuthorizationUpdated,
    BalanceDeclared,
    CardChanged,
    CardholderSet,
    CardIssued,
    CardReplaced,
    Effect,
    HoldClosed,
    HoldLapsed,
    HoldPlaced,
    HoldResized,
    RulesChanged,
    StandInRecorded,
    TombstoneSet,
    Transferred,
)
from engine.authorization.evolve import ACCOUNT_CHANGES
from engine.cards.account import Account
from engine.cards.authorization import Authorization
from engine.cards.card import Card
from engine.commands import Advise, Authorize, CardCommand, Present

_OPENERS: Final = (Authorize, Present, Advise)
"""Commands that can open a transaction."""


class WriteContext(msgspec.Struct, frozen=True, gc=False):
    """The command's subjects, for the writers of its effects."""

    rows: Rows
    command: CardCommand
    card: Card
    account: Account | None
    original: Authorization | None
    now_ms: int


def write_effects(context: WriteContext, effects: tuple[Effect, ...]) -> None:
    """Add the rows of each effect, and the account's row if its balance changed."""
    balance_changed = False
    for effect in effects:
        writer = _WRITERS.get(type(effect))
        if writer is not None:
            writer(context, effect)
        balance_changed = balance_changed or type(effect) in ACCOUNT_CHANGES
    if balance_changed and context.account is not None:
        context.rows.set_balance(account_row(context.account), context.account.version - 1)


def _opened(context: WriteContext, effect: AuthorizationOpened) -> None:
    command = context.command
    assert isinstance(command, _OPENERS), "only these commands open a transaction"
    context.rows.transactions.append(transaction_row(effect, command, context.card, context.now_ms))


def _updated(context: WriteContext, effect: AuthorizationUpdated) -> None:
    original = context.original
    assert original is not None, "only a follow-up changes an authorization"
    changed = changed_transaction_row(effect, original, context.card, context.now_ms)
    context.rows.changed_transactions[original.id] = changed


def _issued(context: WriteContext, effect: CardIssued) -> None:
    context.rows.cards[context.card.id] = card_row(context.card)
    if effect.opened_account_id and context.account is not None:
        context.rows.set_balance(account_row(context.account), 0)


def _changed(context: WriteContext, _effect: CardChanged | CardholderSet) -> None:
    context.rows.cards[context.card.id] = card_row(context.card)


def _rules_changed(context: WriteContext, effect: RulesChanged) -> None:
    card = context.card
    context.rows.rules += [
        rule_row(rule, card.tenant_id, card.live, card.programme_id) for rule in effect.written
    ]


def _replaced(context: WriteContext, effect: CardReplaced) -> None:
    row = ReplacementRow(context.card.id, effect.replacement_id, effect.reason, context.now_ms)
    context.rows.replacements.append(row)


def _declared(context: WriteContext, effect: BalanceDeclared) -> None:
    declared, card_id = effect.declared, context.card.id
    row = DeclaredRow(card_id, declared.balance_minor, declared.consumed_minor, declared.declared_ms)
    context.rows.declared[card_id] = row


def _stood_in(context: WriteContext, effect: StandInRecorded) -> None:
    context.rows.stand_ins.append(_stand_in(effect, context.card, context.now_ms))


def _tombstones_set(context: WriteContext, effect: TombstoneSet) -> None:
    context.rows.tombstones += [
        TombstoneRow(context.card.id, reference, effect.recorded_ms) for reference in effect.references
    ]


def _placed(context: WriteContext, effect: HoldPlaced) -> None:
    hold, account_id = effect.hold, _funding_account(context).id
    # The amount at its placement: a later effect of the same batch adds a row to ``changed_holds``.
    row = new_row(
        HoldRow,
        (
            hold.id,
            account_id,
            hold.card_id,
            hold.authorization_id,
            hold.amount_minor,
            "held",
            hold.expires_ms,
        ),
    )
    context.rows.holds.append(row)


def _resized(context: WriteContext, effect: HoldResized) -> None:
    context.rows.change_hold(effect.hold_id, effect.amount_minor, "held", effect.expires_ms)


def _closed(context: WriteContext, effect: HoldClosed) -> None:
    context.rows.change_hold(effect.hold_id, None, effect.state, None)


def _lapsed(context: WriteContext, effect: HoldLapsed) -> None:
    context.rows.lapse(effect.hold_id, effect.authorization_id, context.now_ms)


def _transferred(context: WriteContext, effect: Transferred) -> None:
    _write_transfer(context.rows, effect, _funding_account(context), context.now_ms)


def _funding_account(context: WriteContext) -> Account:
    assert context.account is not None, "only funded cards have balance effects"
    return context.account


def _write_transfer(rows: Rows, transfer: Transferred, account: Account, now_ms: int) -> None:
    accounts = (account.id, transfer.other_account_id)
    debited, credited = accounts if transfer.direction == "debit" else reversed(accounts)
    for entry_id, account_id, direction in (
        (transfer.debit_entry_id, debited, "debit"),
        (transfer.credit_entry_id, credited, "credit"),
    ):
        row = EntryRow(
            entry_id,
            transfer.transfer_id,
            account_id,
            direction,
            transfer.amount_minor,
            account.currency,
            transfer.authorization_id,
            now_ms,
        )
        rows.entries.append(row)


def _stand_in(effect: StandInRecorded, card: Card, now_ms: int) -> StandInRow:
    stand_in = effect.stand_in
    return StandInRow(
        effect.id,
        card.tenant_id,
        card.live,
        card.programme_id,
        card.id,
        effect.authorization_id,
        stand_in.outage_id,
        now_ms,
        effect.decision,
        stand_in.rule,
        stand_in.trigger,
        effect.amount_minor,
        effect.currency,
        effect.mcc,
        stand_in.exposure_minor,
        stand_in.used_minor,
        stand_in.limit_minor,
        effect.response_code,
        effect.stan,
        effect.rrn,
    )


_WRITERS: Final[dict[type, Callable[[WriteContext, Any], None]]] = {
    AuthorizationOpened: _opened,
    AuthorizationUpdated: _updated,
    CardIssued: _issued,
    CardChanged: _changed,
    RulesChanged: _rules_changed,
    CardReplaced: _replaced,
    CardholderSet: _changed,
    BalanceDeclared: _declared,
    StandInRecorded: _stood_in,
    TombstoneSet: _tombstones_set,
    HoldPlaced: _placed,
    HoldResized: _resized,
    HoldClosed: _closed,
    HoldLapsed: _lapsed,
    Transferred: _transferred,
}
"""Writers by effect. An effect without a writer changes counters, which are written for every command."""
