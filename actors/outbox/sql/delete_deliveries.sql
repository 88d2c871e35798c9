-- Deletes deliveries older than $1 days, and their attempts, among the $2 oldest.
-- $3 is the time on the process's clock: a row must be too old by both clocks.
WITH oldest AS MATERIALIZED (
    SELECT id, created_at FROM deliveries ORDER BY id LIMIT $2::int
), deleted AS (
    DELETE FROM deliveries d USING oldest o
    WHERE d.id = o.id AND o.created_at < least(now(), $3::timestamptz) - make_interval(days => $1::int)
    RETURNING 1
)
SELECT count(*)::int AS deleted FROM deleted
