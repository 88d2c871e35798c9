"""Promises of gateway programmes, which keep their own ledger."""

from __future__ import annotations

from typing import Final

from engine.limits import EVENT_RETENTION_DAYS

GATEWAY: Final[dict[str, str]] = {
    "in gateway mode the platform posts and holds nothing": """
        SELECT c.id, c.account_id IS NULL
            AND NOT EXISTS (SELECT FROM holds WHERE card_id = c.id)
            AND NOT EXISTS (SELECT FROM ledger_entries e JOIN transactions t ON t.id = e.authorization_id
                            WHERE t.card_id = c.id)
        FROM cards c JOIN programmes p ON p.id = c.programme_id
        WHERE p.config::jsonb ->> 'mode' = 'gateway'""",
    "a gateway transaction is open exactly while it has a remainder": """
        SELECT t.id, (t.status IN ('pending', 'partially_cleared')) = (t.remainder_minor > 0)
            AND t.remainder_minor <= greatest(0, t.approved_minor - t.reversed_minor)
            AND (t.remainder_minor = 0 OR t.closed IS NULL)
        FROM transactions t JOIN programmes p ON p.id = t.programme_id
        WHERE p.config::jsonb ->> 'mode' = 'gateway'""",
    "posting instructions of a gateway transaction add up to its amounts": f"""
        WITH instructions AS (
            SELECT type, data::jsonb ->> 'authorization_id' AS id,
                replace(data::jsonb ->> 'amount', '.', '')::bigint AS minor
            FROM events WHERE type LIKE '%posting_instruction%')
        , published AS (
            SELECT id,
                coalesce(sum(minor) FILTER (WHERE type LIKE '%.issued'), 0) AS issued_minor,
                coalesce(sum(minor) FILTER (WHERE type LIKE '%.released'), 0) AS released_minor,
                coalesce(sum(minor) FILTER (WHERE type LIKE '%.created'), 0) AS cleared_minor
            FROM instructions GROUP BY id)
        , expected AS (
            SELECT t.*, CASE j.kind WHEN 'present' THEN 0 ELSE t.approved_minor END AS issued_minor,
                t.reversed_minor + (
                    SELECT coalesce(sum((f.decision::jsonb ->> 'released_minor')::bigint), 0)
                    FROM journal f WHERE f.authorization_id = t.id AND f.kind = 'present') AS released_minor
            FROM transactions t JOIN programmes p ON p.id = t.programme_id
            LEFT JOIN journal j ON j.actor_id = t.card_id AND j.seq = t.seq
            WHERE p.config::jsonb ->> 'mode' = 'gateway')
        SELECT coalesce(expected.id::text, published.id), expected.id IS NOT NULL AND (
            expected.created_at < now() - interval '{EVENT_RETENTION_DAYS} days' OR
            (expected.issued_minor, expected.released_minor, expected.cleared_minor) = (
                coalesce(published.issued_minor, 0), coalesce(published.released_minor, 0),
                coalesce(published.cleared_minor, 0)))
        FROM expected FULL JOIN published ON published.id = expected.id::text""",
}
