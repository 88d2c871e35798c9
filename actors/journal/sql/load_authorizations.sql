-- Compact rows (engine/decision/compact.py) are authorizations only; their last value has the members of a conversion.
-- Authorizations by card ($1) and reference ($2), oldest first; the newest $3 of one network id.
SELECT wanted.card_id::text, wanted.reference, t.id::text, t.kind, t.currency, first.day, j.command_key, t.network_txn_id,
       t.requested_minor, t.approved_minor, t.cleared_minor, t.reversed_minor, t.hold_id::text, t.decline_reason, t.remainder_minor, t.closed,
       CASE WHEN j.command LIKE '[%' THEN (command_values(j.command) -> 13 -> 'merchant_amount')::text
           ELSE (j.command::json -> 'merchant_amount')::text END AS merchant_amount,
       coalesce((
           SELECT json_object_agg(increment.name, json_build_object(
               'left_minor', CASE
                   -- Reversed before it arrived: no amount was added.
                   WHEN increment.reversed_early THEN 0
                   ELSE coalesce((
                       SELECT (r.decision::jsonb ->> 'increment_left_minor')::bigint FROM journal_rows r
                       WHERE r.authorization_id = t.id AND r.kind = 'reverse' AND r.decision::jsonb ->> 'increment' = increment.name
                       ORDER BY r.seq DESC LIMIT 1), increment.left_minor)
                   END,
               'day', increment.day,
               'counted_minor', CASE
                   WHEN increment.reversed_early THEN 0
                   ELSE increment.counted_minor - (
                       SELECT coalesce(sum((g.decision::jsonb -> 'uncounted' ->> increment.name)::bigint), 0) FROM journal_rows g
                       WHERE g.authorization_id = t.id AND g.kind IN ('reverse', 'advise'))
                   END) ORDER BY increment.seq)
           FROM (
               SELECT i.seq, i.name, i.approved_minor AS left_minor, i.approved_minor AS counted_minor, i.day,
                   i.reversed_early OR EXISTS (
                       SELECT FROM tombstones b WHERE b.card_id = t.card_id AND b.reference = i.name) AS reversed_early
               FROM (
                   SELECT n.seq, 'k:' || encode(n.command_key, 'hex') AS name, n.decision::jsonb ->> 'day' AS day,
                       (n.decision::jsonb ->> 'approved_minor')::bigint AS approved_minor,
                       -- Position of `reversed_early` in layout 2 (engine/decision/recorded.py). Layout 1 has no such position.
                       coalesce(n.inputs::jsonb ->> 28, 'false')::boolean AS reversed_early
                   FROM journal_rows n WHERE n.authorization_id = t.id AND n.kind = 'increment') i
               UNION ALL
               SELECT a.seq, 'k:' || encode(a.command_key, 'hex'), 0, (a.decision::jsonb ->> 'counted_minor')::bigint,
                   a.decision::jsonb ->> 'counted_day', false
               FROM journal_rows a WHERE a.authorization_id = t.id AND a.kind = 'advise' AND a.decision::jsonb ? 'counted_minor'
           ) AS increment), '{}') AS increments,
       CASE WHEN j.kind = 'advise' THEN ARRAY(
           SELECT message.name FROM json_array_elements_text(coalesce(j.command::json -> 'references', '[]')) AS message (name)
           WHERE message.name LIKE 'k:%') ELSE '{}' END AS stands_for
FROM unnest($1::uuid[], $2::text[]) AS wanted (card_id, reference)
JOIN cards c ON c.id = wanted.card_id
CROSS JOIN LATERAL (
    -- Tenant and mode are the begin of the primary key. A plan that was made for empty tables must not read all of it.
    SELECT found.* FROM transactions found
    WHERE found.tenant_id = c.tenant_id AND found.live = c.live AND found.card_id = wanted.card_id AND found.id = ANY (
        CASE left(wanted.reference, 2)
            WHEN 'a:' THEN ARRAY[substr(wanted.reference, 3)::uuid]
            -- The index has each key without its first byte.
            WHEN 'k:' THEN ARRAY(SELECT authorization_id FROM (
                                     SELECT authorization_id, actor_id FROM journal_rows
                                     WHERE substring(command_key FROM 2) = decode(substr(wanted.reference, 5), 'hex')
                                         AND command_key = decode(substr(wanted.reference, 3), 'hex')
                                     -- Not by the card, which may have many commands.
                                     OFFSET 0) named WHERE actor_id = wanted.card_id)
            ELSE ARRAY(SELECT id FROM transactions named
                       WHERE named.network_txn_id = substr(wanted.reference, 3) AND named.card_id = wanted.card_id
                       ORDER BY seq DESC LIMIT $3::int)
        END)
) t
CROSS JOIN LATERAL (
    -- The day of the approval; of an authorization that was declined here, the day of its advice.
    SELECT coalesce((
        SELECT a.decision::jsonb ->> 'counted_day' FROM journal_rows a
        WHERE a.authorization_id = t.id AND a.kind = 'advise' AND NOT a.decision::jsonb ? 'counted_minor'
            AND a.decision::jsonb ? 'counted_day' ORDER BY a.seq LIMIT 1), t.day) AS day
) first
JOIN journal_rows j ON j.actor_id = t.card_id AND j.seq = t.seq
ORDER BY t.seq
