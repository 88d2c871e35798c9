-- Makes pending deliveries due whose next attempt is later than any schedule ($1 seconds) allows, by the database's clock and at $2, the
-- time on the process's clock: a wrong clock scheduled them. One index scan for each endpoint finds them.
WITH misscheduled AS MATERIALIZED (
    SELECT far.id
    FROM webhook_endpoints w
    CROSS JOIN LATERAL (
        SELECT d.id FROM deliveries d
        WHERE d.endpoint_id = w.id AND d.state = 'pending'
            AND d.next_attempt_at > greatest(now(), $2::timestamptz) + make_interval(secs => $1::float8)
        LIMIT $3::int
    ) far
    LIMIT $3::int
), rescheduled AS (
    UPDATE deliveries d SET next_attempt_at = now() FROM misscheduled m
    WHERE d.id = m.id AND d.state = 'pending'
    RETURNING 1
)
SELECT count(*)::int AS rescheduled FROM rescheduled
