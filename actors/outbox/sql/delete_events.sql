-- Deletes events older than $1 days; $2 of the oldest are looked at. $3 is the clock of the process: rows go only when both clocks say so.
WITH oldest AS MATERIALIZED (
    SELECT tenant_id, live, id, created_at FROM events ORDER BY txid LIMIT $2::int
), deleted AS (
    DELETE FROM events e USING oldest o
    WHERE e.tenant_id = o.tenant_id AND e.live = o.live AND e.id = o.id
        AND o.created_at < least(now(), $3::timestamptz) - make_interval(days => $1::int)
    RETURNING 1
)
SELECT count(*)::int AS deleted FROM deleted
