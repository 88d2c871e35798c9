"""A history of many transactions, made by SQL: for measurements of lists and exports.

The rows repeat one approved and one declined transaction of the tenant, with other ids, cards, times, codes
and references; on request with the ledger entries of their presentments. The oldest rows are rare in every
respect: a category code, a reason and a programme that no later row has.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from stanchion import Client, StanchionError, money
from stanchion.records import Card

RARE_MCC: Final = "7995"
RARE_REASON: Final = "card_stolen"
FREQUENT_MCC: Final = "5001"
FREQUENT_REASON: Final = "insufficient_funds"
BEGIN_MS: Final = 1_767_225_600_000
"""The instant of the first row; each row is a second later."""
RARE_ROWS: Final = 10
CODES: Final = 40
DECLINED_EACH: Final = 20
REVERSED_EACH: Final = 50

SEQ_BEGIN: Final = 1_000_000
"""The number of a row in its card's journal is higher; a card's own commands have lower ones."""
AT_ONCE: Final = 200_000
"""Rows of one statement."""

# The ids of a row and its entries differ in one digit: 8000 for the row, 8002 to 8004 for its entries.
_WRITE: Final = f"""
    WITH made AS (
        SELECT n, ({BEGIN_MS} + n * 1000::bigint) AS at_ms, to_timestamp({BEGIN_MS} / 1000 + n) AS at,
            n <= {RARE_ROWS} AS rare, (n <= {RARE_ROWS} OR n % {DECLINED_EACH} = 0) AS declined,
            n % {REVERSED_EACH} = 1 AS reversed,
            CASE WHEN n <= {RARE_ROWS} THEN $5::uuid
                ELSE ($6::uuid[])[1 + (n::bigint * 7919) % cardinality($6::uuid[])] END AS card_id
        FROM generate_series($1::integer, $2::integer) n),
    written AS (
        INSERT INTO transaction_rows (id, tenant_id, live, card_id, cardholder_id, programme_id, seq, kind,
            status, currency, requested_minor, approved_minor, held_minor, cleared_minor, reversed_minor,
            decline_reason, created_at, updated_at, network_txn_id, day, remainder_minor, mcc, rrn)
        SELECT (substr(hex, 1, 8) || '-' || substr(hex, 9) || '-7000-8000-' || right(c.tenant_id::text, 10)
                || '00')::uuid, c.tenant_id, c.live, c.id, c.cardholder_id, c.programme_id, {SEQ_BEGIN} + n,
            t.kind, CASE WHEN declined THEN 'declined' WHEN reversed THEN 'reversed' ELSE 'cleared' END,
            c.currency, t.requested_minor, CASE WHEN declined THEN 0 ELSE t.requested_minor END, 0,
            CASE WHEN declined OR reversed THEN 0 ELSE t.requested_minor END,
            CASE WHEN reversed AND NOT declined THEN t.requested_minor ELSE 0 END,
            CASE WHEN rare THEN '{RARE_REASON}' WHEN declined THEN '{FREQUENT_REASON}' END, at, at,
            'N' || n || right(c.tenant_id::text, 6), '2026-01-01', 0,
            CASE WHEN rare THEN '{RARE_MCC}' ELSE (5000 + (n / 7) % {CODES})::text END, lpad(n::text, 12, '0')
        FROM made m JOIN cards c ON c.id = m.card_id CROSS JOIN transactions t,
            LATERAL (SELECT lpad(to_hex(at_ms), 12, '0')) AS id (hex)
        WHERE t.id = $3::uuid
        RETURNING id, card_id, programme_id, seq, status, cleared_minor, currency, created_at),
    recorded AS (
        INSERT INTO journal_rows (actor_id, seq, epoch, command_key, fingerprint, kind, command, inputs,
            decision, reply, recorded_at, authorization_id)
        SELECT w.card_id, w.seq, 0, decode(md5(w.id::text), 'hex'), j.fingerprint, 'authorize', j.command,
            j.inputs, j.decision, j.reply, w.created_at, w.id
        FROM written w
        JOIN transactions t ON t.id = CASE w.status WHEN 'declined' THEN $4::uuid ELSE $3::uuid END
        JOIN journal_rows j ON j.actor_id = t.card_id AND j.seq = t.seq)
    INSERT INTO ledger_entries (id, transfer_id, account_id, direction, amount_minor, currency,
        authorization_id, occurred_at)
    SELECT overlay(w.id::text PLACING side.digit FROM 23)::uuid,
        overlay(w.id::text PLACING '2' FROM 23)::uuid,
        CASE side.direction WHEN 'debit' THEN c.account_id ELSE a.id END, side.direction, w.cleared_minor,
        w.currency, w.id, w.created_at
    FROM written w JOIN cards c ON c.id = w.card_id
    JOIN accounts a ON a.programme_id = w.programme_id AND a.kind = 'settlement'
    CROSS JOIN (VALUES ('debit', '3'), ('credit', '4')) AS side (direction, digit)
    WHERE w.seq <= $7::bigint AND w.cleared_minor > 0
"""


class Life(msgspec.Struct, frozen=True):
    """The objects of one tenant that the rows repeat or name: ids."""

    approved: str
    """A transaction."""
    declined: str
    rare_card: str
    """The only card of its programme."""
    cards: list[str]


async def fill(
    connection: Any, life: Life, rows: int, seconds_max: float = 900.0, *, entries: int = 0
) -> None:
    """Give the tenant of ``life`` ``rows`` transactions with their journal rows.

    Of the first ``entries`` transactions, each cleared one has a debit of its card's account and a credit of
    the settlement account; the balance of the card's account, which its owner keeps, stays as it is.
    """
    ids = (life.approved, life.declined, life.rare_card, life.cards)
    for first in range(1, rows + 1, AT_ONCE):
        last = min(rows, first + AT_ONCE - 1)
        await connection.execute(_WRITE, first, last, *ids, SEQ_BEGIN + entries, timeout=seconds_max)


def life_of(client: Client, cards: int = 8) -> Life:
    """A tenant with two programmes that share ``cards`` cards, and a programme with a single card. Raises
    StanchionError."""
    programmes = [client.programs.create(name=f"Programme {n}", currency="EUR") for n in range(3)]
    issued = [_card(client, programmes[n % 2]["id"]) for n in range(cards)]
    rare = _card(client, programmes[2]["id"])
    client.cards.load(issued[0]["id"], money("10.00", "EUR"))
    approved, declined = (_spend(client, issued[0], amount) for amount in ("1.00", "99.00"))
    return Life(approved, declined, rare["id"], [card["id"] for card in issued])


def _card(client: Client, programme_id: str) -> Card:
    holder = client.cardholders.create(
        programme_id=programme_id, given_name="Ada", family_name="Byron", email="ada@example.com"
    )
    product = client.card_products.create(
        programme_id=programme_id,
        name="Virtual",
        network="visa",
        currency="EUR",
        form_factor="virtual",
        iin="400000",
    )
    return client.cards.create(card_product_id=product["id"], cardholder_id=holder["id"])


def _spend(client: Client, card: Card, amount: str) -> str:
    accepted = client.simulations.spend(
        card_id=card["id"],
        amount=money(amount, "EUR"),
        mcc="5411",
        merchant_name="Corner Shop",
        channel="pos",
    )
    decided = client.simulations.wait(accepted["simulation_id"])["transaction_id"]
    if decided is None:
        raise StanchionError("a decided spend names no transaction")
    return decided
