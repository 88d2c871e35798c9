"""The rows of cards, accounts and transactions, made from their state in memory."""

from __future__ import annotations

import msgspec

from actors.journal.rows import AccountRow, CardRow, TransactionRow, new_row
from engine.authorization.effects import AuthorizationOpened, AuthorizationUpdated
from engine.cards.account import Account
from engine.cards.authorization import Authorization, status
from engine.cards.card import Card
from engine.commands import Advise, Authorize, Present

_encode = msgspec.json.Encoder().encode


def card_row(card: Card) -> CardRow:
    """The row of ``card`` in its present state."""
    return CardRow(
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


def account_row(account: Account) -> AccountRow:
    """The row of ``account`` in its present state."""
    return new_row(
        AccountRow,
        (
            account.id,
            account.tenant_id,
            account.live,
            account.programme_id,
            "card",
            account.currency,
            account.posted_minor,
            account.held_minor,
            account.version,
        ),
    )


def transaction_row(
    effect: AuthorizationOpened, command: Authorize | Present | Advise, card: Card, now_ms: int
) -> TransactionRow:
    """The row of the transaction that ``command`` has opened on ``card``, at ``now_ms``."""
    authorization = effect.authorization
    return new_row(
        TransactionRow,
        (
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
            command.mcc,
            command.wire.rrn,
        ),
    )


def changed_transaction_row(
    effect: AuthorizationUpdated, original: Authorization, card: Card, now_ms: int
) -> TransactionRow:
    """The change of the transaction of ``original`` on ``card``, at ``now_ms``.

    The update reads the primary key and the columns that can change; the others are ``None``.
    """
    return TransactionRow(
        original.id,
        card.tenant_id,
        card.live,
        None,
        None,
        None,
        None,
        None,
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
        None,
        None,
    )
