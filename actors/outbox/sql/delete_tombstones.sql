-- Deletes tombstones older than $1 days, at most $2.
-- $3 is the time on the process's clock: a row must be too old by both clocks.
WITH oldest AS MATERIALIZED (
    SELECT card_id, reference FROM tombstones
    WHERE recorded_at < least(now(), $3::timestamptz) - make_interval(days => $1::int) ORDER BY recorded_at LIMIT $2::int
), deleted AS (
    DELETE FROM tombstones t USING oldest o WHERE (t.card_id, t.reference) = (o.card_id, o.reference) RETURNING 1
)
SELECT count(*)::int AS deleted FROM deleted
