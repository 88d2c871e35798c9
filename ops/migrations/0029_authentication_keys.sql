-- Keys that programmes share with their access control servers (3-D Secure).

CREATE TABLE authentication_keys (
    programme_id    uuid PRIMARY KEY REFERENCES programmes,
    sealed          bytea,
    previous_sealed bytea,
    changed_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX authentication_keys_changes ON authentication_keys (changed_at);
COMMENT ON TABLE authentication_keys IS 'Keys of HMAC-based authentication values. Edges verify values under the current and the previous key; a programme without keys has its values reported as present.';
