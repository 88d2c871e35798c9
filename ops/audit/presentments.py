"""Promises of presentments."""

from __future__ import annotations

from typing import Final

PRESENTMENTS: Final[dict[str, str]] = {
    "a transaction's cleared amount is the sum of its presentments": """
        SELECT t.id, t.cleared_minor = coalesce(p.amount_minor, 0)
        FROM transactions t LEFT JOIN (
            SELECT authorization_id, sum((command::jsonb ->> 'amount_minor')::bigint) AS amount_minor
            FROM journal WHERE kind = 'present' AND decision IS NOT NULL
            GROUP BY authorization_id) p ON p.authorization_id = t.id""",
    "each acquirer reference and sequence was posted once": """
        SELECT p.actor_id || '/' || (p.command::jsonb ->> 'arn') || '/' || (p.command::jsonb ->> 'sequence'),
            count(*) = 1
        FROM journal p
        WHERE p.kind = 'present' AND p.decision IS NOT NULL AND p.command::jsonb ->> 'arn' IS NOT NULL
        GROUP BY 1""",
    "a presented refund is credited": """
        SELECT t.id, t.approved_minor - t.reversed_minor >= t.cleared_minor
        FROM transactions t JOIN programmes p ON p.id = t.programme_id
        WHERE t.kind = 'refund' AND p.config::jsonb ->> 'mode' IS DISTINCT FROM 'gateway'""",
    # It was open then if it still is, or if a later message found it open. If an advice or an increment may
    # have reopened it, the rows do not show it.
    "no force post while its authorization was open": """
        SELECT f.id, NOT EXISTS (
            SELECT FROM transactions o
            JOIN journal d ON d.actor_id = o.card_id AND d.seq = o.seq AND d.kind = 'authorize'
            WHERE o.card_id = f.card_id AND o.network_txn_id = f.network_txn_id AND o.kind = 'purchase'
                AND o.seq < f.seq AND (d.decision::jsonb ->> 'approved_minor')::bigint > 0
                AND NOT EXISTS (
                    SELECT FROM journal a WHERE a.authorization_id = o.id AND a.seq > f.seq
                        AND a.kind IN ('advise', 'increment'))
                AND (o.status IN ('pending', 'partially_cleared') OR EXISTS (
                    SELECT FROM journal c WHERE c.authorization_id = o.id AND c.seq > f.seq
                        AND c.kind IN ('present', 'reverse') AND NOT c.decision::jsonb ? 'remark')))
        FROM transactions f WHERE f.kind = 'force_post'""",
}
