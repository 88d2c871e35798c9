-- The next commands of several cards before an instant, at most $4 of each: card by card, in the order of the journal. Texts are as stored.
SELECT c.number, j.seq, round(date_part('epoch', j.recorded_at) * 1000)::bigint AS at_ms, j.kind, j.command_key, j.fingerprint,
       j.command, j.inputs, j.decision, j.reply, j.authorization_id::text
FROM unnest($1::uuid[], $2::bigint[]) WITH ORDINALITY AS c (id, after, number)
CROSS JOIN LATERAL (
    SELECT * FROM journal_rows WHERE actor_id = c.id AND seq > c.after AND recorded_at < to_timestamp($3::bigint / 1000.0)
    ORDER BY seq LIMIT $4::integer
) j
