-- At most $2 endpoints with pending deliveries, in the order of their ids, after $1; and whether the oldest delivery of each is due; $3 is
-- the expected time. The query skips from endpoint to endpoint, so a million deliveries of one endpoint cost one
-- step.
WITH RECURSIVE waiting (endpoint_id, next_attempt_at, step) AS (
    (
        SELECT endpoint_id, next_attempt_at, 1 FROM deliveries
        WHERE state = 'pending' AND endpoint_id > $1::uuid
        ORDER BY endpoint_id, next_attempt_at LIMIT 1
    )
    UNION ALL
    SELECT further.endpoint_id, further.next_attempt_at, waiting.step + 1
    FROM waiting
    CROSS JOIN LATERAL (
        SELECT d.endpoint_id, d.next_attempt_at FROM deliveries d
        WHERE d.state = 'pending' AND d.endpoint_id > waiting.endpoint_id
        ORDER BY d.endpoint_id, d.next_attempt_at LIMIT 1
    ) further
    WHERE waiting.step < $2::int
)
SELECT endpoint_id::text, next_attempt_at <= bounded_now($3) AS due FROM waiting
