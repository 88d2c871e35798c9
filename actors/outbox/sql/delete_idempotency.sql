-- Deletes stored responses older than $1 days, and claims without a response; at most $2 of each.
-- $3 is the time on the process's clock: a row must be too old by both clocks.
WITH oldest AS MATERIALIZED (
    SELECT key_digest FROM idempotency
    WHERE created_at < least(now(), $3::timestamptz) - make_interval(days => $1::int) ORDER BY created_at LIMIT $2::int
), deleted AS (
    DELETE FROM idempotency i USING oldest o WHERE i.key_digest = o.key_digest RETURNING 1
), abandoned AS (
    DELETE FROM idempotency_claims WHERE key_digest IN (
        SELECT key_digest FROM idempotency_claims
        WHERE claimed_at < least(now(), $3::timestamptz) - make_interval(days => $1::int) LIMIT $2::int
    )
)
SELECT count(*)::int AS deleted FROM deleted
