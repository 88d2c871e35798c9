-- Exports: files of transactions, ledger entries, decisions or stand-ins. An API server writes them in the background, and every API
-- server can serve them, because their content is in the database.

CREATE TABLE exports (
    id             uuid PRIMARY KEY,
    tenant_id      uuid NOT NULL REFERENCES tenants,
    live           boolean NOT NULL,
    kind           text NOT NULL CHECK (kind IN ('transactions', 'ledger_entries', 'decisions', 'stand_ins')),
    format         text NOT NULL CHECK (format IN ('csv', 'jsonl')),
    from_at        timestamptz NOT NULL,
    to_at          timestamptz NOT NULL CHECK (to_at > from_at),
    state          text NOT NULL CHECK (state IN ('pending', 'running', 'completed', 'failed')),
    failure        text,
    created_at     timestamptz NOT NULL,
    as_of          timestamptz,
    completed_at   timestamptz,
    attempt        integer NOT NULL DEFAULT 0,
    lease_until    timestamptz,
    rows_estimated bigint,
    rows           bigint NOT NULL DEFAULT 0,
    bytes          bigint NOT NULL DEFAULT 0,
    sha256         bytea
) WITH (fillfactor = 50);
CREATE INDEX exports_of_tenant ON exports (tenant_id, live, id);
CREATE INDEX exports_open ON exports (id) WHERE state IN ('pending', 'running');
CREATE INDEX exports_age ON exports (created_at);
COMMENT ON COLUMN exports.lease_until IS 'Until then the API server of the attempt is at work; later another one starts over.';
COMMENT ON COLUMN exports.bytes IS 'Bytes of the content before its compression.';

CREATE TABLE export_chunks (
    export_id uuid NOT NULL REFERENCES exports ON DELETE CASCADE,
    attempt   integer NOT NULL,
    number    integer NOT NULL,
    data      bytea NOT NULL,
    PRIMARY KEY (export_id, attempt, number)
);
ALTER TABLE export_chunks ALTER COLUMN data SET STORAGE EXTERNAL;
COMMENT ON TABLE export_chunks IS 'The parts of one gzip stream for each attempt.';
