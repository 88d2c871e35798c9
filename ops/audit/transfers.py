"""Promises of loads, transfers, their reversals, and the balances of programmes' own accounts."""

from __future__ import annotations

from typing import Final

# The two entries of a transfer, or of its reversal: the same amount in opposite directions.
_SIDES: Final = """
    SELECT e.transfer_id, count(*) AS entries, count(DISTINCT e.account_id) AS accounts,
        min(e.amount_minor) AS least_minor, max(e.amount_minor) AS most_minor, min(e.currency) AS currency,
        max(e.direction) FILTER (WHERE a.kind = 'card') AS direction,
        max(e.account_id::text) FILTER (WHERE a.kind = 'card') AS account_id,
        max(e.account_id::text) FILTER (WHERE a.kind = 'funding_source') AS source_id
    FROM ledger_entries e LEFT JOIN accounts a ON a.id = e.account_id
    WHERE e.authorization_id IS NULL GROUP BY e.transfer_id
"""
_EXACT: Final = """
    s.entries = 2 AND s.accounts = 2 AND s.account_id = t.account_id::text AND s.source_id = f.id::text
    AND (s.least_minor, s.most_minor, s.currency) = (t.amount_minor, t.amount_minor, t.currency)
"""
_SOURCE: Final = "JOIN accounts f ON f.programme_id = t.programme_id AND f.kind = 'funding_source'"

TRANSFERS: Final[dict[str, str]] = {
    "each load and transfer in the journal has an equal row": """
        SELECT coalesce(j.id, t.id), (t.card_id, t.seq, t.amount_minor, t.currency)
                = (j.actor_id, j.seq, (j.command ->> 'amount_minor')::bigint, j.command ->> 'currency')
            AND (t.kind, t.direction)
                = (coalesce(j.command ->> 'kind', 'load'), coalesce(j.command ->> 'direction', 'credit'))
        FROM (
            SELECT transfer_of_command(command::jsonb) AS id, actor_id, seq, command::jsonb AS command
            FROM journal WHERE kind IN ('load', 'transfer')) j
        FULL JOIN transfers t ON t.id = j.id""",
    "a transfer has two entries, on its account and on the funding source": f"""
        SELECT t.id, {_EXACT} AND s.direction = t.direction
        FROM transfers t {_SOURCE} LEFT JOIN ({_SIDES}) s ON s.transfer_id = t.id""",
    "a reversal is exact and single": f"""
        SELECT coalesce(t.id, r.transfer_id), r.commands = 1 AND r.reversal_id = t.reversal_id::text
            AND {_EXACT} AND s.direction <> t.direction
        FROM (SELECT * FROM transfers WHERE reversal_id IS NOT NULL) t {_SOURCE}
        LEFT JOIN ({_SIDES}) s ON s.transfer_id = t.reversal_id
        FULL JOIN (
            SELECT (command::jsonb #>> '{{transfer,id}}')::uuid AS transfer_id, count(*) AS commands,
                min(transfer_of_command(command::jsonb)::text) AS reversal_id
            FROM journal WHERE kind = 'reverse_transfer' GROUP BY 1) r ON r.transfer_id = t.id""",
    "an entry without an authorization belongs to a transfer or to a reversal": """
        SELECT e.id, (t.id IS NULL) <> (r.id IS NULL)
        FROM ledger_entries e LEFT JOIN transfers t ON t.id = e.transfer_id
        LEFT JOIN transfers r ON r.reversal_id = e.transfer_id
        WHERE e.authorization_id IS NULL""",
    "the balance of a programme's own account is the sum of its entries": """
        SELECT a.id, (coalesce(s.posted_minor, 0), coalesce(s.entries, 0))
            = (coalesce(e.posted_minor, 0), coalesce(e.entries, 0))
        FROM accounts a LEFT JOIN (
            SELECT account_id, sum(posted_minor) AS posted_minor, sum(entries) AS entries
            FROM account_sums GROUP BY account_id) s ON s.account_id = a.id
        LEFT JOIN (
            SELECT account_id, count(*) AS entries,
                sum(CASE direction WHEN 'credit' THEN amount_minor ELSE -amount_minor END) AS posted_minor
            FROM ledger_entries GROUP BY account_id) e ON e.account_id = a.id
        WHERE a.kind <> 'card'""",
}
