SELECT j.command_key, j.fingerprint, j.reply
FROM unnest($1::uuid[]) AS wanted (actor_id)
CROSS JOIN LATERAL (
    SELECT command_key, fingerprint, reply FROM journal
    WHERE journal.actor_id = wanted.actor_id ORDER BY seq DESC LIMIT $2
) j
