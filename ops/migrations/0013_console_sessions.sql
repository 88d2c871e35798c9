-- Sessions of the console -------------------------------------------------------------------------------------------------------

CREATE TABLE console_sessions (
    id_digest  bytea PRIMARY KEY,
    client     uuid NOT NULL REFERENCES clients,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX console_sessions_expiry ON console_sessions (expires_at);
COMMENT ON TABLE console_sessions IS 'One row for each signed-in browser; signing out deletes it. id_digest is the keyed hash of the cookie.';

CREATE INDEX simulations_of_tenant ON simulations (tenant_id, id);
COMMENT ON INDEX simulations_of_tenant IS 'The console reads the newest answers of one tenant.';
