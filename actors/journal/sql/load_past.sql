-- The purchases of cards and accounts ($1, kinds $2) that may count in velocities since $3, each with its increments. The past of a
-- card includes that of the cards that it replaces.
WITH RECURSIVE wanted AS (
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::timestamptz[]) AS subjects (subject, kind, since)
), lineage AS (
    SELECT subject, since, subject AS card_id FROM wanted WHERE kind = 'card'
    UNION
    SELECT lineage.subject, lineage.since, r.card_id
    FROM lineage JOIN card_replacements r ON r.replacement_id = lineage.card_id
), cards_of AS (
    SELECT * FROM lineage
    UNION ALL
    SELECT w.subject, w.since, c.id FROM wanted w JOIN cards c ON c.account_id = w.subject WHERE w.kind = 'account'
)
SELECT o.subject::text, t.id::text AS authorization_id, t.created_at AS at_ms, t.kind, t.approved_minor, t.cleared_minor,
       t.reversed_minor, t.decline_reason IS NOT NULL AS declined, j.command,
       coalesce((
           SELECT json_agg(json_build_object(
               'name', i.name, 'at_ms', i.at_ms, 'command', i.command,
               'counted_minor', CASE WHEN i.reversed_early THEN 0 ELSE i.approved_minor - (
                   SELECT coalesce(sum((g.decision::jsonb -> 'uncounted' ->> i.name)::bigint), 0) FROM journal_rows g
                   WHERE g.authorization_id = t.id AND g.kind IN ('reverse', 'advise')) END) ORDER BY i.seq)
           FROM (
               SELECT n.seq, 'k:' || encode(n.command_key, 'hex') AS name, n.command,
                   floor(extract(epoch FROM n.recorded_at) * 1000)::bigint AS at_ms,
                   (n.decision::jsonb ->> CASE n.kind WHEN 'increment' THEN 'approved_minor' ELSE 'counted_minor' END)::bigint
                       AS approved_minor,
                   -- As in load_authorizations.sql.
                   n.kind = 'increment' AND (coalesce(n.inputs::jsonb ->> 28, 'false')::boolean OR EXISTS (
                       SELECT FROM tombstones b
                       WHERE b.card_id = t.card_id AND b.reference = 'k:' || encode(n.command_key, 'hex'))) AS reversed_early
               FROM journal_rows n
               WHERE n.authorization_id = t.id
                   AND (n.kind = 'increment' OR n.kind = 'advise' AND n.decision::jsonb ? 'counted_minor')) i), '[]') AS increments
FROM cards_of o
CROSS JOIN LATERAL (
    -- Without OFFSET, a plan that was made while the table was small would read it whole.
    SELECT * FROM transactions
    WHERE card_id = o.card_id AND updated_at > o.since AND kind IN ('purchase', 'force_post') OFFSET 0
) t
JOIN journal_rows j ON j.actor_id = t.card_id AND j.seq = t.seq
