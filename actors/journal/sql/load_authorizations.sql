SELECT wanted.card_id::text, wanted.reference, t.id::text, t.kind, t.currency, t.day, j.command_key, t.network_txn_id,
       t.requested_minor, t.approved_minor, t.cleared_minor, t.reversed_minor, t.hold_id::text, t.decline_reason, t.remainder_minor, t.closed
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
                  ORDER BY id DESC LIMIT 1)
        END)
) t
JOIN journal j ON j.actor_id = t.card_id AND j.seq = t.seq
