-- Identity verification (written by the API and the vision host) ----------------------------------------------------------------------

CREATE TABLE kyc_checks (
    id            uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL REFERENCES tenants,
    live          boolean NOT NULL,
    cardholder_id uuid NOT NULL REFERENCES cardholders,
    flow_key      text NOT NULL CHECK (flow_key IN ('basic', 'document', 'full')),
    state         text NOT NULL CHECK (state IN ('pending', 'in_review', 'passed', 'failed', 'expired')),
    version       bigint NOT NULL,
    awaiting      text[] NOT NULL,
    reason_codes  text[] NOT NULL DEFAULT '{}',
    document_type text,
    tokens        text NOT NULL DEFAULT '{}',
    attempts      smallint NOT NULL DEFAULT 0,
    tries         smallint NOT NULL DEFAULT 0,
    evaluate_at   timestamptz,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    completed_at  timestamptz,
    expires_at    timestamptz,
    erased_at     timestamptz,
    CHECK ((state IN ('passed', 'failed', 'expired')) = (completed_at IS NOT NULL)),
    CHECK (state NOT IN ('pending', 'passed') OR expires_at IS NOT NULL),
    CHECK (evaluate_at IS NULL OR state = 'in_review')
) WITH (fillfactor = 80);
CREATE INDEX kyc_checks_of_tenant ON kyc_checks (tenant_id, live, id);
CREATE INDEX kyc_checks_of_cardholder ON kyc_checks (cardholder_id, id);
CREATE INDEX kyc_checks_due ON kyc_checks (evaluate_at) WHERE evaluate_at IS NOT NULL;
CREATE INDEX kyc_checks_expiring ON kyc_checks (expires_at) WHERE state IN ('pending', 'passed');
COMMENT ON COLUMN kyc_checks.version IS 'Rises by 1 with each change; whoever changes a case names the version it has read.';
COMMENT ON COLUMN kyc_checks.tokens IS 'JSON: the custody token of each input that was given. The case never holds a value.';
COMMENT ON COLUMN kyc_checks.attempts IS 'Evaluations that gave a result.';
COMMENT ON COLUMN kyc_checks.tries IS 'Evaluations in a row that gave none.';
COMMENT ON COLUMN kyc_checks.evaluate_at IS 'When a case whose provider gave no result is evaluated again; null = it waits for a person.';

CREATE TABLE kyc_data_keys (
    check_id     uuid NOT NULL REFERENCES kyc_checks,
    purpose      text NOT NULL,
    wrapped      bytea,
    created_at   timestamptz NOT NULL,
    destroyed_at timestamptz,
    PRIMARY KEY (check_id, purpose),
    CHECK ((wrapped IS NULL) = (destroyed_at IS NOT NULL))
);
COMMENT ON TABLE kyc_data_keys IS 'One key for each case and purpose, sealed under the master key. What was sealed with a destroyed key cannot be read by anybody.';

CREATE TABLE kyc_values (
    token      text PRIMARY KEY,
    check_id   uuid NOT NULL REFERENCES kyc_checks,
    purpose    text NOT NULL,
    field      text NOT NULL,
    sealed     bytea NOT NULL,
    created_at timestamptz NOT NULL,
    UNIQUE (check_id, field),
    FOREIGN KEY (check_id, purpose) REFERENCES kyc_data_keys
);
ALTER TABLE kyc_values ALTER COLUMN sealed SET STORAGE EXTERNAL;
COMMENT ON TABLE kyc_values IS 'Custody: values and images sealed with the data key of their case and purpose. Ciphertext is never worth compressing.';

CREATE TABLE kyc_accesses (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL,
    check_id uuid NOT NULL,
    field    text NOT NULL,
    purpose  text NOT NULL,
    reader   text NOT NULL,
    granted  boolean NOT NULL
);
CREATE INDEX kyc_accesses_of_check ON kyc_accesses (check_id, id);
COMMENT ON TABLE kyc_accesses IS 'One row for each value that somebody asked for, committed before the value is opened.';
CREATE TRIGGER kyc_accesses_append_only BEFORE UPDATE OR DELETE ON kyc_accesses
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE kyc_capture_sessions (
    id           uuid PRIMARY KEY,
    check_id     uuid NOT NULL REFERENCES kyc_checks,
    kind         text NOT NULL CHECK (kind IN ('flow', 'single')),
    token_digest bytea NOT NULL UNIQUE,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL
);
CREATE INDEX kyc_capture_sessions_expiry ON kyc_capture_sessions (expires_at);
CREATE INDEX kyc_capture_sessions_of_check ON kyc_capture_sessions (check_id);
