-- Deletes stored answers older than $1 days, at most $2.
WITH oldest AS MATERIALIZED (
    SELECT key_digest FROM idempotency
    WHERE created_at < now() - make_interval(days => $1::int) ORDER BY created_at LIMIT $2::int
), deleted AS (
    DELETE FROM idempotency i USING oldest o WHERE i.key_digest = o.key_digest RETURNING 1
)
SELECT count(*)::int AS deleted FROM deleted
