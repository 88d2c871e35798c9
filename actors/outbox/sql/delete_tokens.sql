-- Deletes access tokens that expired more than $1 days ago, at most $2.
-- $3 is the time on the process's clock: a row must be too old by both clocks.
WITH oldest AS MATERIALIZED (
    SELECT token_digest FROM access_tokens
    WHERE expires_at < least(now(), $3::timestamptz) - make_interval(days => $1::int) ORDER BY expires_at LIMIT $2::int
), deleted AS (
    DELETE FROM access_tokens t USING oldest o WHERE t.token_digest = o.token_digest RETURNING 1
)
SELECT count(*)::int AS deleted FROM deleted
