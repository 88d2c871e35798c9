-- Webhook endpoints (written by the API) ----------------------------------------------------------------------------------------------

CREATE TABLE webhook_endpoints (
    id                         uuid PRIMARY KEY,
    tenant_id                  uuid NOT NULL REFERENCES tenants,
    live                       boolean NOT NULL,
    url                        text NOT NULL,
    event_types                text[] NOT NULL CHECK (cardinality(event_types) > 0),
    description                text,
    status                     text NOT NULL CHECK (status IN ('enabled', 'disabled')),
    secret_sealed              bytea NOT NULL,
    previous_secret_sealed     bytea,
    previous_secret_expires_at timestamptz,
    created_at                 timestamptz NOT NULL,
    updated_at                 timestamptz NOT NULL,
    CHECK ((previous_secret_sealed IS NULL) = (previous_secret_expires_at IS NULL))
);
CREATE INDEX webhook_endpoints_of_tenant ON webhook_endpoints (tenant_id, live, id);
COMMENT ON COLUMN webhook_endpoints.event_types IS 'Types of the catalogue, or the one element *, which means all of them.';

-- Deliveries (written by the relay, the dispatchers, and redelivery) ------------------------------------------------------------------

CREATE TABLE deliveries (
    id               uuid PRIMARY KEY,
    tenant_id        uuid NOT NULL,
    live             boolean NOT NULL,
    event_id         uuid NOT NULL,
    endpoint_id      uuid NOT NULL,
    redelivery       boolean NOT NULL DEFAULT false,
    state            text NOT NULL CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts         smallint NOT NULL DEFAULT 0,
    first_attempt_at timestamptz,
    next_attempt_at  timestamptz,
    claimed_at       timestamptz,
    claimed_by       text,
    failure          text,
    created_at       timestamptz NOT NULL DEFAULT now(),
    CHECK ((state = 'pending') = (next_attempt_at IS NOT NULL))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
CREATE UNIQUE INDEX deliveries_of_event ON deliveries (event_id, endpoint_id) WHERE NOT redelivery;
CREATE INDEX deliveries_of_endpoint ON deliveries (endpoint_id, id);
CREATE INDEX deliveries_failed ON deliveries (endpoint_id, id) WHERE state = 'failed';
CREATE INDEX deliveries_redelivered ON deliveries (event_id) WHERE redelivery;
CREATE INDEX deliveries_due ON deliveries (endpoint_id, next_attempt_at) WHERE state = 'pending';
COMMENT ON COLUMN deliveries.endpoint_id IS 'Without a foreign key: an endpoint is deleted at once, whatever the number of its deliveries; those that are due then are deleted by who finds them.';
COMMENT ON COLUMN deliveries.attempts IS 'Attempts that were begun: each is counted before it leaves, so a dead dispatcher never makes a seventh possible.';
COMMENT ON COLUMN deliveries.next_attempt_at IS 'When the delivery is due. Beginning an attempt moves it to the next place in the schedule, so what a dead dispatcher had begun goes on by itself.';
COMMENT ON COLUMN deliveries.failure IS 'Why a failed delivery ended without a last answer: attempts_exhausted, endpoint_disabled, event_expired.';

CREATE TABLE delivery_attempts (
    delivery_id uuid NOT NULL REFERENCES deliveries ON DELETE CASCADE,
    number      smallint NOT NULL,
    started_at  timestamptz NOT NULL,
    latency_ms  integer,
    status_code smallint,
    error       text,
    PRIMARY KEY (delivery_id, number)
);
COMMENT ON COLUMN delivery_attempts.latency_ms IS 'Null when nobody knows how the attempt ended (error lost).';
COMMENT ON COLUMN delivery_attempts.error IS 'One word of a closed list when no usable answer came; never text of the receiver.';

CREATE FUNCTION time_ordered_id(_at timestamptz) RETURNS uuid LANGUAGE sql VOLATILE AS $$
    -- A UUIDv7: 48 bits of milliseconds, the version, and the random rest of a UUIDv4, variant included.
    SELECT (lpad(to_hex(floor(extract(epoch FROM _at) * 1000)::bigint), 12, '0') || '7'
        || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid;
$$;

-- Relay -------------------------------------------------------------------------------------------------------------------------------

CREATE TABLE relay_progress (
    lane     text PRIMARY KEY,
    txid     xid8 NOT NULL,
    event_id uuid
);
COMMENT ON TABLE relay_progress IS 'How far committed events have become deliveries: all of earlier transactions, and of this one those up to event_id.';
INSERT INTO relay_progress VALUES ('events', pg_snapshot_xmin(pg_current_snapshot()));

CREATE FUNCTION relay_events(
    _limit integer, OUT relayed integer, OUT delivery_ids uuid[], OUT endpoint_ids uuid[], OUT lag_seconds double precision
) LANGUAGE plpgsql AS $$
-- Turns the next events into deliveries, in the order of their transactions. A transaction counts once it, and every one with a lower
-- id, has ended: what is read then is complete, in whatever order they committed. lag_seconds is the age of the oldest committed event
-- that is still to be relayed, also of one that waits for the end of somebody else's long transaction.
DECLARE
    _horizon  xid8 := pg_snapshot_xmin(pg_current_snapshot());
    _position relay_progress;
    _last     record;
BEGIN
    relayed := 0;
    -- Looking costs nothing; the lock, which is a write, is taken only when there is something to do.
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
    -- Where nobody listens, events need not be read. Whoever began to before one of these transactions did is seen here.
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
            WHERE w.status = 'enabled' AND w.event_types && ARRAY[e.type, '*']
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

CREATE FUNCTION adopt_restored_events() RETURNS bigint LANGUAGE plpgsql AS $$
-- A dump that is restored on another server carries that server's transaction ids, which mean nothing here and may lie ahead: until
-- this server got there, no event would be relayed. Restored events are given this transaction's id, or none if they had been relayed,
-- and the place is set back; their number is returned.
DECLARE
    _position relay_progress;
    _adopted  bigint;
BEGIN
    SELECT * INTO _position FROM relay_progress WHERE lane = 'events' FOR UPDATE;
    -- A transaction that can be seen is never as new as the next one.
    IF _position.txid <= pg_snapshot_xmax(pg_current_snapshot()) THEN
        UPDATE events SET txid = pg_current_xact_id() WHERE txid >= pg_snapshot_xmax(pg_current_snapshot());
        GET DIAGNOSTICS _adopted = ROW_COUNT;
        RETURN _adopted;
    END IF;
    UPDATE events
        SET txid = CASE WHEN txid < _position.txid OR (txid = _position.txid AND id <= _position.event_id)
            THEN '0' ELSE pg_current_xact_id() END
        -- Rows that were written here carry the low half of their transaction's id in xmin.
        WHERE xmin::text::numeric <> txid::text::numeric % 4294967296;
    GET DIAGNOSTICS _adopted = ROW_COUNT;
    UPDATE relay_progress SET txid = '1', event_id = NULL WHERE lane = 'events';
    RETURN _adopted;
END $$;
