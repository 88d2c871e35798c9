"""A history of many transactions, made by SQL: for measurements of lists and exports.

The rows repeat one approved and one declined transaction of the tenant, with other ids, cards, times, codes
and references. The oldest rows are rare in every respect: a category code, a reason and a programme that no
later row has.
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

_ROWS: Final = f"""
    CREATE TEMPORARY TABLE made ON COMMIT DROP AS
    SELECT n, ({BEGIN_MS} + n * 1000::bigint) AS at_ms, to_timestamp({BEGIN_MS} / 1000 + n) AS at,
        n <= {RARE_ROWS} AS rare, (n <= {RARE_ROWS} OR n % {DECLINED_EACH} = 0) AS declined,
        CASE WHEN n <= {RARE_ROWS} THEN $2::uuid
            ELSE ($3::uuid[])[1 + (n::bigint * 7919) % cardinality($3::uuid[])] END AS card_id
    FROM generate_series(1, $1::integer) n
"""
_TRANSACTIONS: Final = f"""
    INSERT INTO transactions (id, tenant_id, live, card_id, cardholder_id, programme_id, seq, kind, status,
        currency, requested_minor, approved_minor, held_minor, cleared_minor, reversed_minor, decline_reason,
        created_at, updated_at, network_txn_id, day, remainder_minor, mcc, rrn)
    SELECT (substr(hex, 1, 8) || '-' || substr(hex, 9) || '-7000-8000-' || right(c.tenant_id::text, 10)
            || '00')::uuid, c.tenant_id, c.live, c.id, c.cardholder_id, c.programme_id, 1000000 + n, t.kind,
        CASE WHEN m.declined THEN 'declined' WHEN n % 50 = 1 THEN 'reversed' ELSE 'cleared' END, c.currency,
        t.requested_minor, CASE WHEN m.declined THEN 0 ELSE t.requested_minor END, 0,
        CASE WHEN m.declined THEN 0 ELSE t.requested_minor END, 0,
        CASE WHEN rare THEN '{RARE_REASON}' WHEN m.declined THEN '{FREQUENT_REASON}' END, at, at,
        'N' || n || right(c.tenant_id::text, 6), '2026-01-01', 0,
        CASE WHEN rare THEN '{RARE_MCC}' ELSE (5000 + (n / 7) % {CODES})::text END, lpad(n::text, 12, '0')
    FROM made m JOIN cards c ON c.id = m.card_id CROSS JOIN transactions t,
        LATERAL (SELECT lpad(to_hex(at_ms), 12, '0')) AS id (hex)
    WHERE t.id = $1::uuid
"""
_JOURNAL: Final = """
    INSERT INTO journal_rows (actor_id, seq, epoch, command_key, fingerprint, kind, command, inputs, decision,
        reply, recorded_at, authorization_id)
    SELECT r.card_id, r.seq, 0, decode(md5(r.id::text), 'hex'), j.fingerprint, 'authorize', j.command,
        j.inputs, j.decision, j.reply, r.created_at, r.id
    FROM transactions r JOIN transactions t ON t.id = CASE WHEN r.decline_reason IS NULL THEN $1::uuid
        ELSE $2::uuid END
    JOIN journal_rows j ON j.actor_id = t.card_id AND j.seq = t.seq
    WHERE r.tenant_id = t.tenant_id AND r.live = t.live AND r.seq > 1000000
"""


class Life(msgspec.Struct, frozen=True):
    """The objects of one tenant that the rows repeat or name: ids."""

    approved: str
    """A transaction."""
    declined: str
    rare_card: str
    """The only card of its programme."""
    cards: list[str]


async def fill(connection: Any, life: Life, rows: int, seconds_max: float = 900.0) -> None:
    """Give the tenant of ``life`` ``rows`` transactions with their journal rows."""
    async with connection.transaction():
        await connection.execute(_ROWS, rows, life.rare_card, life.cards, timeout=seconds_max)
        await connection.execute(_TRANSACTIONS, life.approved, timeout=seconds_max)
        await connection.execute(_JOURNAL, life.approved, life.declined, timeout=seconds_max)


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
