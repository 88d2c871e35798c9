"""Promises of the ledger, holds, transactions and the journal."""

from __future__ import annotations

from typing import Final

from engine.limits import EVENT_RETENTION_DAYS
from ops.audit.decided import DECIDED, EVENT_OF_COMMAND
from ops.audit.replacements import CONTINUED
from ops.audit.settlement import SETTLEMENT

BOOKS: Final[dict[str, str]] = {
    "the held balance is the sum of the open holds": """
        SELECT a.id, a.held_minor = coalesce(sum(h.amount_minor), 0)
        FROM accounts a LEFT JOIN holds h ON h.account_id = a.id AND h.state = 'held'
        WHERE a.kind = 'card' GROUP BY a.id""",
    "the posted balance is the sum of the entries": """
        SELECT a.id, a.posted_minor = coalesce(sum(
            CASE e.direction WHEN 'credit' THEN e.amount_minor ELSE -e.amount_minor END), 0)
        FROM accounts a LEFT JOIN ledger_entries e ON e.account_id = a.id
        WHERE a.kind = 'card' GROUP BY a.id""",
    "the debits of a transfer equal its credits": """
        SELECT transfer_id, sum(amount_minor) FILTER (WHERE direction = 'debit')
            = sum(amount_minor) FILTER (WHERE direction = 'credit')
        FROM ledger_entries GROUP BY transfer_id, currency""",
    "an entry is in its account's currency": """
        SELECT e.id, e.currency = a.currency
        FROM ledger_entries e LEFT JOIN accounts a ON a.id = e.account_id""",
    "seq is gap-free from 1": """
        SELECT actor_id, min(seq) = 1 AND max(seq) = count(*) FROM journal GROUP BY actor_id""",
    "cards and programmes are at their last seq": """
        SELECT at.id, at.seq = (SELECT max(seq) FROM journal WHERE actor_id = at.id)
        FROM (SELECT card_id AS id, seq FROM card_usage UNION ALL SELECT id, seq FROM programmes) at""",
    "epochs never decrease along seq": """
        SELECT j.actor_id::text || '/' || j.seq, j.epoch <= s.epoch
            AND j.epoch >= coalesce(lag(j.epoch) OVER (PARTITION BY j.actor_id ORDER BY j.seq), 0)
        FROM journal j LEFT JOIN shards s ON s.shard = get_byte(uuid_send(j.actor_id), 15)""",
    "a card and its account have one owner": """
        SELECT c.id, get_byte(uuid_send(c.id), 15) = get_byte(uuid_send(a.id), 15)
        FROM cards c LEFT JOIN accounts a ON a.id = c.account_id WHERE c.account_id IS NOT NULL""",
    "each first decision has its transaction": DECIDED
    + """
        SELECT coalesce(d.id, t.id), (t.card_id, t.seq) = (j.actor_id, j.seq) AND j.authorization_id = t.id
        FROM (SELECT * FROM decided WHERE kind IN ('authorize', 'advise')) d
        FULL JOIN transactions t ON t.id = d.id
        LEFT JOIN journal j ON j.actor_id = t.card_id AND j.seq = t.seq""",
    "a transaction agrees with its decisions": DECIDED
    + """
        SELECT t.id, (t.approved_minor = d.approved_minor
                -- A refund that was presented for more than was approved.
                OR (t.kind = 'refund' AND t.approved_minor = t.cleared_minor
                    AND t.cleared_minor > d.approved_minor))
            AND t.decline_reason IS NOT DISTINCT FROM d.reason
        FROM transactions t JOIN (
            SELECT authorization_id, sum((decision ->> 'approved_minor')::bigint) AS approved_minor,
                min(decision ->> 'reason') FILTER (WHERE id = authorization_id) AS reason
            FROM decided GROUP BY authorization_id) d ON d.authorization_id = t.id
        WHERE NOT EXISTS (SELECT FROM journal a WHERE a.authorization_id = t.id AND a.kind = 'advise')""",
    "each decision has one authorization.decided with the same content": DECIDED
    + f"""
        , announced AS (
            SELECT *, {EVENT_OF_COMMAND} AS event_id,
                {EVENT_OF_COMMAND.replace("(id)", "(authorization_id)")} AS first_event_id FROM decided)
        , published AS (SELECT id, data::jsonb AS data FROM events WHERE type = 'authorization.decided')
        SELECT coalesce(d.id, t.id),
            (t.id IS NULL AND d.recorded_at < now() - interval '{EVENT_RETENTION_DAYS} days') OR (
            t.data ->> 'authorization_id' = d.authorization_id::text AND (d.kind = 'advise' OR (
                d.kind = 'superseding'
                AND t.data ->> 'decision' = d.decision ->> 'decided'
                AND t.data ->> 'decided_by' = 'network_stand_in'
                AND (t.data ->> 'supersedes')::uuid = d.first_event_id) OR (
                t.data ->> 'decision' = d.decision ->> 'decision'
                AND t.data ->> 'decline_reason' IS NOT DISTINCT FROM d.decision ->> 'reason'
                AND replace(t.data ->> 'approved_amount', '.', '')::bigint
                    = (d.decision ->> 'approved_minor')::bigint)))
        FROM announced d FULL JOIN published t ON t.id = d.event_id""",
    "a hold belongs to its transaction, and only the newest may be held or captured": """
        SELECT h.id, (h.card_id, h.account_id) = (t.card_id, c.account_id)
            AND (h.id = t.hold_id OR h.state = 'lapsed' OR (
                -- The edge reversed it as late, and the network's own approval placed a new hold.
                h.state = 'released' AND EXISTS (
                    SELECT FROM journal a WHERE a.authorization_id = t.id AND a.kind = 'advise'
                        AND a.decision::jsonb ->> 'decided' = 'approved')))
        FROM holds h LEFT JOIN transactions t ON t.id = h.authorization_id
        LEFT JOIN cards c ON c.id = t.card_id""",
    "each managed approval has a hold, and no other transaction has one": """
        SELECT t.id, CASE
            WHEN t.kind <> 'purchase' OR t.approved_minor = 0 OR c.account_id IS NULL
                OR p.config::jsonb ->> 'mode' = 'gateway' OR (t.hold_id IS NULL AND t.reversed_minor > 0)
            THEN t.hold_id IS NULL AND held.authorization_id IS NULL
            ELSE h.authorization_id = t.id END
        FROM transactions t JOIN cards c ON c.id = t.card_id JOIN programmes p ON p.id = t.programme_id
        LEFT JOIN holds h ON h.id = t.hold_id
        LEFT JOIN (SELECT DISTINCT authorization_id FROM holds) held ON held.authorization_id = t.id""",
    "a transaction's held amount is the sum of its open holds, within its remainder": """
        SELECT t.id, t.held_minor = coalesce(h.amount_minor, 0) AND t.held_minor
            <= greatest(0, t.approved_minor - t.cleared_minor - t.reversed_minor)
        FROM transactions t LEFT JOIN (
            SELECT authorization_id, sum(amount_minor) AS amount_minor FROM holds WHERE state = 'held'
            GROUP BY authorization_id) h ON h.authorization_id = t.id""",
    "a transaction's posted amount is the sum of its entries": """
        SELECT t.id,
            CASE WHEN t.kind = 'refund' THEN t.approved_minor - t.reversed_minor ELSE -t.cleared_minor END
            = coalesce(e.amount_minor, 0)
        FROM transactions t JOIN cards c ON c.id = t.card_id JOIN programmes p ON p.id = t.programme_id
        LEFT JOIN (
            SELECT authorization_id, account_id,
                sum(CASE direction WHEN 'credit' THEN amount_minor ELSE -amount_minor END) AS amount_minor
            FROM ledger_entries GROUP BY authorization_id, account_id) e
            ON e.authorization_id = t.id AND e.account_id = c.account_id
        WHERE p.config::jsonb ->> 'mode' IS DISTINCT FROM 'gateway'""",
    "counters of a card with purchases only are the approvals of its day": DECIDED
    + f"""
        SELECT u.card_id,
            u.day_count = count(d.id) FILTER (WHERE d.kind = 'authorize') + coalesce(n.day_count, 0)
            AND u.day_amount_minor = coalesce(sum((d.decision ->> 'approved_minor')::bigint), 0)
                + coalesce(n.day_amount_minor, 0)
        FROM card_usage u LEFT JOIN ({CONTINUED}) n ON n.replacement_id = u.card_id AND n.day = u.day
        LEFT JOIN (
            SELECT d.* FROM decided d JOIN transactions t ON t.id = d.authorization_id
            WHERE t.kind = 'purchase' AND (d.decision ->> 'approved_minor')::bigint > 0
        ) d ON d.actor_id = u.card_id AND d.decision ->> 'day' = u.day
        WHERE NOT EXISTS (
            SELECT FROM journal WHERE actor_id = u.card_id AND kind IN ('reverse', 'present', 'advise'))
        AND NOT EXISTS (SELECT FROM tombstones WHERE card_id = u.card_id AND reference !~ '^[gw]:')
        GROUP BY u.card_id, n.day_count, n.day_amount_minor""",
    "decisions of the simulated network's own stand-in are advised": """
        SELECT s.id, s.response_code = '00' AND t.decline_reason IS NULL AND EXISTS (
            SELECT FROM journal a WHERE a.authorization_id = t.id AND a.kind = 'advise')
        FROM simulations s LEFT JOIN transactions t ON t.id = s.authorization_id
        WHERE s.operation = 'spend' AND s.state = 'decided' AND s.authorization_id IS NOT NULL
            AND s.request::jsonb ->> 'scenario' = 'force_stip_timeout' AND s.approval_code = s.stan""",
    "simulations show the decision in the journal": DECIDED
    + """
        SELECT s.id, s.response_code = d.decision ->> 'response_code'
            AND s.approval_code IS NOT DISTINCT FROM d.decision ->> 'approval_code'
            AND coalesce(s.approved_minor, 0) = (d.decision ->> 'approved_minor')::bigint
        FROM simulations s LEFT JOIN decided d ON d.id = s.authorization_id
        WHERE s.authorization_id IS NOT NULL AND s.operation = 'spend'
            AND s.request::jsonb ->> 'scenario' IS DISTINCT FROM 'force_stip_timeout'""",
    "settlement reports equal the ledger": SETTLEMENT,
    # A late reversal may take up to a minute.
    "simulations answered with 91 or 96 hold nothing": """
        SELECT s.id, s.response_code NOT IN ('91', '96') OR s.decided_at > now() - interval '1 minute'
            OR NOT EXISTS (
                SELECT FROM journal j JOIN transactions t ON t.id = j.authorization_id
                WHERE j.actor_id = s.card_id AND j.kind = 'authorize' AND t.held_minor > 0
                    AND j.command::jsonb -> 'wire' ->> 'stan' = s.stan
                    AND j.command::jsonb -> 'wire' ->> 'rrn' = s.rrn)
        FROM simulations s
        WHERE s.operation = 'spend' AND s.response_code IS NOT NULL
            AND s.request::jsonb ->> 'scenario' IS DISTINCT FROM 'force_stip_timeout'""",
    "a programme's versions rise by 1": """
        SELECT p.id, max(e.version) = p.version AND max(e.version) - min(e.version) + 1 = count(*)
        FROM programmes p JOIN (
            SELECT data::jsonb ->> 'programme_id' AS id, (data::jsonb ->> 'version')::bigint AS version
            FROM events WHERE type LIKE 'programme.%') e ON e.id = p.id::text
        GROUP BY p.id""",
    "the id space has 256 shards": "SELECT 'shards', count(*) = 256 FROM shards",
}
