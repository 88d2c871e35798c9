-- Deletes events older than $1 days among the $2 oldest.
-- $3 is the time on the process's clock: a row must be too old by both clocks.
WITH oldest AS MATERIALIZED (
    SELECT tenant_id, live, id, created_at FROM event_rows ORDER BY txid LIMIT $2::int
), deleted AS (
    DELETE FROM event_rows e USING oldest o
    WHERE e.tenant_id = o.tenant_id AND e.live = o.live AND e.id = o.id
        AND o.created_at < least(now(), $3::timestamptz) - make_interval(days => $1::int)
    RETURNING 1
)
SELECT count(*)::int AS deleted FROM deleted
