"""The promise of settlement reports: their sums are those of the ledger."""

from __future__ import annotations

from typing import Final

from api.settlement.report import POSTED

SETTLEMENT: Final = f"""
    SELECT account_id::text || '/' || day, reported = ledger
    FROM (
        SELECT account_id, day, coalesce(sum(amount_minor) FILTER (WHERE NOT on_card), 0) AS reported,
            coalesce(-sum(amount_minor) FILTER (WHERE on_card), 0) AS ledger
        FROM (
            SELECT posted.account_id, (posted.occurred_at AT TIME ZONE 'UTC')::date AS day,
                posted.amount_minor, false AS on_card
            FROM ({POSTED}) posted JOIN accounts a ON a.id = posted.account_id AND a.kind = 'settlement'
            WHERE posted.network IS NOT NULL
            UNION ALL
            -- The other entries of the same transfers.
            SELECT s.account_id, (s.occurred_at AT TIME ZONE 'UTC')::date,
                CASE o.direction WHEN 'credit' THEN o.amount_minor ELSE -o.amount_minor END, true
            FROM ledger_entries s JOIN accounts a ON a.id = s.account_id AND a.kind = 'settlement'
            JOIN ledger_entries o ON o.transfer_id = s.transfer_id AND o.id <> s.id
        ) entries GROUP BY account_id, day
    ) days
"""
"""For each settlement account and day: the sums of the report, and those of the other sides of its
transfers. An entry without a network belongs to no transaction; there are none."""
