-- Counts at most $1 rows: a larger backlog does not cost more.
WITH due AS (
    SELECT endpoint_id
    FROM deliveries
    WHERE state = 'pending' AND next_attempt_at <= now()
    LIMIT $1::int
)
SELECT coalesce(sum(size), 0)::int AS backlog, coalesce(max(size), 0)::int AS backlog_of_one_max
FROM (SELECT count(*) AS size FROM due GROUP BY endpoint_id) AS endpoint
