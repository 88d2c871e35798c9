-- Claims due deliveries and begins their attempts: the deliveries of $1, and the $3 oldest of each endpoint of $2. A delivery that can
-- not be sent any more ends here. Returns a row for each delivery that was found, with a number if its attempt has begun.
-- $4 is the name of the dispatcher, $5 the expected time, $6 the schedule and $7 the lease, both in seconds.
WITH named AS MATERIALIZED (
    SELECT id, tenant_id, live, event_id, endpoint_id, attempts, claimed_at
    FROM deliveries
    -- Only pending deliveries have a next attempt. A condition on the state would let a plan made for small tables scan the whole
    -- index of due deliveries.
    WHERE id = ANY ($1::uuid[]) AND next_attempt_at <= bounded_now($5)
    FOR UPDATE SKIP LOCKED
), found AS MATERIALIZED (
    SELECT d.*
    FROM unnest($2::uuid[], $3::int[]) AS backlog (endpoint_id, slots)
    CROSS JOIN LATERAL (
        SELECT x.id, x.tenant_id, x.live, x.event_id, x.endpoint_id, x.attempts, x.claimed_at
        FROM deliveries x
        WHERE x.endpoint_id = backlog.endpoint_id AND x.state = 'pending'
            AND x.next_attempt_at <= bounded_now($5) AND x.id <> ALL ($1::uuid[])
        ORDER BY x.next_attempt_at
        LIMIT backlog.slots
        FOR UPDATE SKIP LOCKED
    ) d
), due AS MATERIALIZED (
    SELECT d.id, d.live, d.endpoint_id, d.event_id, d.attempts, d.claimed_at, w.url, w.secret_sealed,
        CASE WHEN w.previous_secret_expires_at > bounded_now($5)
            THEN w.previous_secret_sealed END AS previous_secret_sealed,
        e.type, e.created_at, e.data,
        CASE
            WHEN w.id IS NULL THEN 'endpoint_deleted'
            WHEN w.status <> 'enabled' THEN 'endpoint_disabled'
            WHEN e.id IS NULL THEN 'event_expired'
            WHEN d.attempts >= cardinality($6::float8[]) THEN 'attempts_exhausted'
        END AS failure
    FROM (SELECT * FROM named UNION ALL SELECT * FROM found) d
    LEFT JOIN webhook_endpoints w ON w.id = d.endpoint_id
    LEFT JOIN events e ON e.tenant_id = d.tenant_id AND e.live = d.live AND e.id = d.event_id
        AND e.row_id = ANY (event_rows_of(ARRAY[d.event_id]))
), deleted AS (
    DELETE FROM deliveries d USING due WHERE d.id = due.id AND due.failure = 'endpoint_deleted'
), ended AS (
    UPDATE deliveries d
    SET state = 'failed', failure = due.failure, next_attempt_at = NULL, claimed_by = NULL
    FROM due WHERE d.id = due.id AND due.failure <> 'endpoint_deleted'
), lost AS (
    -- The last attempt was counted, and its result was not recorded. A later record replaces this row.
    INSERT INTO delivery_attempts (delivery_id, number, started_at, error)
    SELECT id, attempts, claimed_at, 'lost' FROM due
    WHERE attempts > 0 AND failure IS DISTINCT FROM 'endpoint_deleted'
    ON CONFLICT DO NOTHING
), claimed AS (
    UPDATE deliveries d
    SET attempts = due.attempts + 1,
        first_attempt_at = coalesce(d.first_attempt_at, bounded_now($5)),
        next_attempt_at = greatest(
            coalesce(d.first_attempt_at, bounded_now($5))
                + make_interval(secs => ($6::float8[])[due.attempts + 2]),
            bounded_now($5) + make_interval(secs => $7::float8)
        ),
        claimed_at = bounded_now($5),
        claimed_by = $4::text
    FROM due WHERE d.id = due.id AND due.failure IS NULL
    RETURNING d.id, due.endpoint_id, d.attempts AS number, due.url, due.secret_sealed, due.previous_secret_sealed,
        due.live, due.event_id, due.type, due.created_at, due.data
)
SELECT id::text, endpoint_id::text, number, bounded_now($5) AS started_at, url, secret_sealed,
    previous_secret_sealed, live, event_id::text, type, created_at, data
FROM claimed
UNION ALL
SELECT id::text, endpoint_id::text, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM due WHERE failure IS NOT NULL
