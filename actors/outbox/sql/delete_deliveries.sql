-- Deletes deliveries older than $1 days with their attempts; $2 of the oldest are looked at. $3 is the clock of the process: rows go only when both clocks say so.
WITH oldest AS MATERIALIZED (
    SELECT id, created_at FROM deliveries ORDER BY id LIMIT $2::int
), deleted AS (
    DELETE FROM deliveries d USING oldest o
    WHERE d.id = o.id AND o.created_at < least(now(), $3::timestamptz) - make_interval(days => $1::int)
    RETURNING 1
)
SELECT count(*)::int AS deleted FROM deleted
