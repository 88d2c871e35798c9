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

CREATE TABLE relay_progress (
    lane     text PRIMARY KEY,
    txid     xid8 NOT NULL,
    event_id uuid
);
COMMENT ON TABLE relay_progress IS 'How far the relay has turned committed events into deliveries: everything of earlier transactions is done.';

CREATE TABLE deliveries (
    id               uuid PRIMARY KEY,
    tenant_id        uuid NOT NULL,
    live             boolean NOT NULL,
    event_id         uuid NOT NULL,
    endpoint_id      uuid NOT NULL REFERENCES webhook_endpoints ON DELETE CASCADE,
    redelivery       boolean NOT NULL DEFAULT false,
    state            text NOT NULL CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts         smallint NOT NULL DEFAULT 0,
    first_attempt_at timestamptz,
    next_attempt_at  timestamptz,
    claimed_by       text,
    created_at       timestamptz NOT NULL DEFAULT now(),
    CHECK ((state = 'pending') = (next_attempt_at IS NOT NULL))
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX deliveries_of_event ON deliveries (event_id, endpoint_id) WHERE NOT redelivery;
CREATE INDEX deliveries_of_endpoint ON deliveries (endpoint_id, id);
CREATE INDEX deliveries_due ON deliveries (next_attempt_at) WHERE state = 'pending';
COMMENT ON COLUMN deliveries.next_attempt_at IS 'When the delivery is due. A claim moves it past the longest attempt, so what a dead dispatcher had claimed comes back by itself.';

CREATE TABLE delivery_attempts (
    delivery_id uuid NOT NULL REFERENCES deliveries ON DELETE CASCADE,
    number      smallint NOT NULL,
    started_at  timestamptz NOT NULL,
    latency_ms  integer NOT NULL,
    status_code smallint,
    error       text,
    PRIMARY KEY (delivery_id, number)
);
COMMENT ON COLUMN delivery_attempts.error IS 'One word of a closed list when no usable answer came; never text of the receiver.';
