-- Records the results of attempts. A failed attempt changes its delivery only if it was the last of the schedule: the time of the next
-- attempt was written when this one began. $8 is the number of attempts in the schedule.
WITH result AS MATERIALIZED (
    SELECT *
    FROM unnest($1::uuid[], $2::smallint[], $3::timestamptz[], $4::int[], $5::smallint[], $6::text[], $7::boolean[])
        AS result (delivery_id, number, started_at, latency_ms, status_code, error, delivered)
), updated AS (
    UPDATE deliveries d
    SET state = CASE WHEN result.delivered THEN 'delivered' ELSE 'failed' END,
        failure = CASE WHEN NOT result.delivered THEN 'attempts_exhausted' END,
        next_attempt_at = NULL,
        claimed_by = NULL
    FROM (SELECT DISTINCT ON (delivery_id) * FROM result ORDER BY delivery_id, delivered DESC, number DESC) result
    WHERE d.id = result.delivery_id
        AND CASE WHEN result.delivered THEN d.state <> 'delivered'
            ELSE d.state = 'pending' AND d.attempts = result.number AND result.number >= $8::int END
)
INSERT INTO delivery_attempts (delivery_id, number, started_at, latency_ms, status_code, error)
SELECT result.delivery_id, result.number, result.started_at, result.latency_ms, result.status_code, result.error
FROM result JOIN deliveries d ON d.id = result.delivery_id
ON CONFLICT (delivery_id, number) DO UPDATE
    SET latency_ms = excluded.latency_ms, status_code = excluded.status_code, error = excluded.error
