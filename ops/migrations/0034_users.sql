-- Users of tenants: the people who sign in to the console.

CREATE TABLE users (
    id               uuid        PRIMARY KEY,
    tenant_id        uuid        NOT NULL REFERENCES tenants,
    email            text        NOT NULL UNIQUE,
    name             text        NOT NULL,
    role             text        NOT NULL CHECK (role IN ('user', 'admin', 'owner')),
    modes            text[]      NOT NULL CHECK (modes <@ ARRAY['test', 'live'] AND modes <> '{}'),
    reveal           boolean     NOT NULL DEFAULT false,
    password_hash    text,
    totp_sealed      bytea,
    totp_step        bigint      NOT NULL DEFAULT 0,
    recovery_digests bytea[]     NOT NULL DEFAULT '{}',
    failed_codes     integer     NOT NULL DEFAULT 0,
    codes_after      timestamptz NOT NULL DEFAULT now(),
    zone             text        NOT NULL DEFAULT 'UTC',
    created_at       timestamptz NOT NULL DEFAULT now(),
    last_sign_in_at  timestamptz,
    disabled_at      timestamptz,
    CHECK (totp_sealed IS NOT NULL OR recovery_digests = '{}')
);
CREATE INDEX users_of_tenant ON users (tenant_id, id);
COMMENT ON TABLE users IS 'email is the sign-in name, in lower case. password_hash is an Argon2id string; without one, the user signs in with a link or through OpenID Connect.';
COMMENT ON COLUMN users.totp_step IS 'Time step of the last accepted one-time code (RFC 6238): a code is accepted once.';
COMMENT ON COLUMN users.recovery_digests IS 'Keyed digests of the recovery codes that are left.';
COMMENT ON COLUMN users.codes_after IS 'After too many wrong one-time codes, none is accepted before this instant.';

CREATE TABLE sign_in_links (
    token_digest bytea       PRIMARY KEY,
    user_id      uuid        NOT NULL REFERENCES users,
    purpose      text        NOT NULL CHECK (purpose IN ('invitation', 'sign_in')),
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL
);
CREATE INDEX sign_in_links_of_user ON sign_in_links (user_id);
CREATE INDEX sign_in_links_expiry ON sign_in_links (expires_at);
COMMENT ON TABLE sign_in_links IS 'A link works once: using it deletes its row. An invitation lets its user set a password.';

-- A session of the console belongs to a client or to a user. The release before knows sessions of clients only, and finds no others.
ALTER TABLE console_sessions
    ALTER COLUMN client DROP NOT NULL,
    ADD COLUMN id          uuid        NOT NULL DEFAULT gen_random_uuid(),
    ADD COLUMN user_id     uuid        REFERENCES users,
    ADD COLUMN live        boolean     NOT NULL DEFAULT false,
    ADD COLUMN zone        text        NOT NULL DEFAULT 'UTC',
    ADD COLUMN awaits_code boolean     NOT NULL DEFAULT false,
    ADD COLUMN source      text        NOT NULL DEFAULT '',
    ADD COLUMN agent       text        NOT NULL DEFAULT '',
    ADD CONSTRAINT console_sessions_party CHECK ((client IS NULL) <> (user_id IS NULL));
CREATE INDEX console_sessions_of_user ON console_sessions (user_id);
COMMENT ON COLUMN console_sessions.live IS 'The mode that the session of a user shows; that of a client is its client''s.';
COMMENT ON COLUMN console_sessions.awaits_code IS 'The password was right; the one-time code is still missing.';

-- Users act, too. Earlier rows satisfy the wider condition, so they are not read.
ALTER TABLE audit_log
    DROP CONSTRAINT audit_log_actor_kind_check,
    ADD CONSTRAINT audit_log_actor_kind_check CHECK (actor_kind IN ('client', 'user', 'operator')) NOT VALID;
ALTER TABLE cardholder_status_changes ADD COLUMN actor_kind text NOT NULL DEFAULT 'client';

-- Owners manage users. Existing owners get the scopes, so that they can create the first users.
UPDATE clients SET scopes = scopes || ARRAY ['users:read', 'users:write']
WHERE owner AND revoked_at IS NULL AND NOT scopes && ARRAY ['users:read', 'users:write'];
