SELECT j.command_key, j.fingerprint, j.reply
FROM unnest($1::uuid[]) AS wanted (card_id)
CROSS JOIN LATERAL (
    SELECT command_key, fingerprint, reply FROM journal
    WHERE actor_id = wanted.card_id ORDER BY seq DESC LIMIT $2
) j
