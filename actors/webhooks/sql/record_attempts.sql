-- Writes how attempts have ended. A failed one changes its delivery only if it was the last of the schedule: when the next is due has
-- been written when it began. $8 is the number of attempts in the schedule.
WITH ending AS MATERIALIZED (
    SELECT *
    FROM unnest($1::uuid[], $2::smallint[], $3::timestamptz[], $4::int[], $5::smallint[], $6::text[], $7::boolean[])
        AS ending (delivery_id, number, started_at, latency_ms, status_code, error, delivered)
), told AS (
    UPDATE deliveries d
    SET state = CASE WHEN ending.delivered THEN 'delivered' ELSE 'failed' END,
        failure = CASE WHEN NOT ending.delivered THEN 'attempts_exhausted' END,
        next_attempt_at = NULL,
        claimed_by = NULL
    FROM (SELECT DISTINCT ON (delivery_id) * FROM ending ORDER BY delivery_id, delivered DESC, number DESC) ending
    WHERE d.id = ending.delivery_id
        AND CASE WHEN ending.delivered THEN d.state <> 'delivered'
            ELSE d.state = 'pending' AND d.attempts = ending.number AND ending.number >= $8::int END
)
INSERT INTO delivery_attempts (delivery_id, number, started_at, latency_ms, status_code, error)
SELECT ending.delivery_id, ending.number, ending.started_at, ending.latency_ms, ending.status_code, ending.error
FROM ending JOIN deliveries d ON d.id = ending.delivery_id
ON CONFLICT (delivery_id, number) DO UPDATE
    SET latency_ms = excluded.latency_ms, status_code = excluded.status_code, error = excluded.error
