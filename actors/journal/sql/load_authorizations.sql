SELECT wanted.card_id::text, wanted.reference, t.id::text, t.kind, t.currency, t.day, j.command_key, t.network_txn_id,
       t.requested_minor, t.approved_minor, t.cleared_minor, t.reversed_minor, t.hold_id::text, t.decline_reason, t.remainder_minor, t.closed,
       coalesce((
           SELECT jsonb_object_agg(raised.name, CASE
               -- Given up before it came: it has raised nothing.
               WHEN EXISTS (SELECT FROM tombstones b WHERE b.card_id = t.card_id AND b.reference = raised.name) THEN 0
               ELSE coalesce((
                   SELECT (r.decision::jsonb ->> 'increment_left_minor')::bigint FROM journal r
                   WHERE r.authorization_id = t.id AND r.kind = 'reverse' AND r.decision::jsonb ->> 'increment' = raised.name
                   ORDER BY r.seq DESC LIMIT 1), raised.approved_minor)
               END)
           FROM (
               SELECT 'k:' || encode(i.command_key, 'hex') AS name, (i.decision::jsonb ->> 'approved_minor')::bigint AS approved_minor
               FROM journal i WHERE i.authorization_id = t.id AND i.kind = 'increment'
           ) raised), '{}') AS raised
FROM unnest($1::uuid[], $2::text[]) AS wanted (card_id, reference)
CROSS JOIN LATERAL (
    SELECT found.* FROM transactions found
    WHERE found.card_id = wanted.card_id AND found.id = (
        CASE left(wanted.reference, 2)
            WHEN 'a:' THEN substr(wanted.reference, 3)::uuid
            WHEN 'k:' THEN (SELECT authorization_id FROM journal
                            WHERE command_key = decode(substr(wanted.reference, 3), 'hex') AND actor_id = wanted.card_id)
            ELSE (SELECT id FROM transactions named
                  WHERE named.network_txn_id = substr(wanted.reference, 3) AND named.card_id = wanted.card_id
                  ORDER BY seq DESC LIMIT 1)
        END)
) t
JOIN journal j ON j.actor_id = t.card_id AND j.seq = t.seq
