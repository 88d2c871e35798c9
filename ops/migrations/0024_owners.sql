-- The role `owner`, names of clients, and rotation of their secrets.

ALTER TABLE clients
    ADD COLUMN live boolean GENERATED ALWAYS AS (mode = 'live') STORED,
    ADD COLUMN name text,
    ADD COLUMN owner boolean NOT NULL DEFAULT false,
    ADD COLUMN previous_secret_digest bytea,
    ADD COLUMN previous_secret_expires_at timestamptz,
    ADD CONSTRAINT clients_owner_is_admin CHECK (NOT owner OR role = 'admin');
COMMENT ON COLUMN clients.owner IS 'An owner is an admin with this mark: processes of the release without owners take it for an admin.';
COMMENT ON COLUMN clients.previous_secret_digest IS 'The secret before the last rotation, valid until previous_secret_expires_at.';
CREATE INDEX clients_of_tenant ON clients (tenant_id, live, id);
CREATE INDEX access_tokens_of_client ON access_tokens (client);
CREATE INDEX console_sessions_of_client ON console_sessions (client);

-- The oldest active admin of each tenant and mode becomes its owner. It also gets the scopes that came with this release, so that it can
-- give them to others. A tenant that has only users gets no owner: an operator creates one.
UPDATE clients SET owner = true,
    scopes = scopes || ARRAY (
        SELECT scope FROM unnest(ARRAY['exports:read', 'exports:write', 'accounts:read', 'accounts:write', 'rules:read', 'rules:write',
                                       'clients:read', 'clients:write', 'audit:read']) AS scope
        WHERE scope <> ALL (scopes))
WHERE id IN (
    SELECT DISTINCT ON (tenant_id, live) id FROM clients WHERE role = 'admin' AND revoked_at IS NULL
    ORDER BY tenant_id, live, created_at, id);
