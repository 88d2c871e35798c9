CREATE OR REPLACE FUNCTION relay_events(
    _limit integer, OUT relayed integer, OUT delivery_ids uuid[], OUT endpoint_ids uuid[], OUT lag_seconds double precision
) LANGUAGE plpgsql AS $$
-- Writes the deliveries of the next _limit events, in the order of their transactions. Events of a transaction are read after it and all
-- transactions with lower ids have ended: no event is skipped, whatever the order of the commits. lag_seconds is the age of the oldest
-- committed event without deliveries; it grows while an older transaction stays open.
DECLARE
    _horizon  xid8 := pg_snapshot_xmin(pg_current_snapshot());
    _position relay_progress;
    _last     record;
BEGIN
    relayed := 0;
    -- The lock is a write; without an event to relay it is not taken.
    SELECT * INTO _position FROM relay_progress WHERE lane = 'events';
    SELECT txid, created_at INTO _last FROM events
        WHERE txid >= _position.txid AND (_position.event_id IS NULL OR txid > _position.txid OR id > _position.event_id)
        ORDER BY txid, id LIMIT 1;
    IF _last.txid IS NULL OR _last.txid >= _horizon THEN
        lag_seconds := greatest(coalesce(extract(epoch FROM clock_timestamp() - _last.created_at), 0), 0);
        RETURN;
    END IF;

    SELECT * INTO _position FROM relay_progress WHERE lane = 'events' FOR UPDATE;
    _horizon := pg_snapshot_xmin(pg_current_snapshot());
    -- Without an enabled endpoint, events need not be read. An endpoint that was enabled before one of these transactions is visible.
    IF NOT EXISTS (SELECT FROM webhook_endpoints WHERE status = 'enabled') THEN
        UPDATE relay_progress SET txid = _horizon, event_id = NULL WHERE lane = 'events';
        lag_seconds := 0;
        RETURN;
    END IF;
    WITH batch AS MATERIALIZED (
        SELECT id, tenant_id, live, type, txid, created_at FROM events
        WHERE txid >= _position.txid AND txid < _horizon
            AND (_position.event_id IS NULL OR txid > _position.txid OR id > _position.event_id)
        ORDER BY txid, id LIMIT _limit
    ), inserted AS (
        INSERT INTO deliveries (id, tenant_id, live, event_id, endpoint_id, state, next_attempt_at)
            SELECT time_ordered_id(now()), e.tenant_id, e.live, e.id, w.id, 'pending', now()
            FROM batch e JOIN webhook_endpoints w ON w.tenant_id = e.tenant_id AND w.live = e.live
            -- A test event has its one delivery from the transaction that wrote it.
            WHERE w.status = 'enabled' AND w.event_types && ARRAY[e.type, '*'] AND e.type <> 'webhook_endpoint.tested'
            ON CONFLICT (event_id, endpoint_id) WHERE NOT redelivery DO NOTHING
            RETURNING id, endpoint_id
    ), newest AS (
        SELECT txid, id, created_at FROM batch ORDER BY txid DESC, id DESC LIMIT 1
    )
    SELECT (SELECT count(*) FROM batch) AS size, newest.txid, newest.id, newest.created_at, d.ids, d.endpoints INTO _last
        FROM (SELECT array_agg(id) AS ids, array_agg(endpoint_id) AS endpoints FROM inserted) d LEFT JOIN newest ON true;
    UPDATE relay_progress
        SET txid = CASE WHEN _last.size < _limit THEN _horizon ELSE _last.txid END,
            event_id = CASE WHEN _last.size < _limit THEN NULL ELSE _last.id END
        WHERE lane = 'events';
    relayed := _last.size;
    delivery_ids := _last.ids;
    endpoint_ids := _last.endpoints;
    lag_seconds := greatest(coalesce(extract(epoch FROM clock_timestamp() - _last.created_at), 0), 0);
END $$;
