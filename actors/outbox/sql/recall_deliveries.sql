-- Makes pending deliveries due whose next attempt lies further ahead than any schedule ($1 seconds), by the database's clock and by that of
-- the process ($2): a wrong clock has put it there. Endpoint by endpoint, so that an index finds them.
WITH misplaced AS MATERIALIZED (
    SELECT far.id
    FROM webhook_endpoints w
    CROSS JOIN LATERAL (
        SELECT d.id FROM deliveries d
        WHERE d.endpoint_id = w.id AND d.state = 'pending'
            AND d.next_attempt_at > greatest(now(), $2::timestamptz) + make_interval(secs => $1::float8)
        LIMIT $3::int
    ) far
    LIMIT $3::int
), recalled AS (
    UPDATE deliveries d SET next_attempt_at = now() FROM misplaced m
    WHERE d.id = m.id AND d.state = 'pending'
    RETURNING 1
)
SELECT count(*)::int AS recalled FROM recalled
