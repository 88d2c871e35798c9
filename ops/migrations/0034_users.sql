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

-- Owners manage users. Existing owners get the scopes, so that they can create the first users.
UPDATE clients SET scopes = scopes || ARRAY ['users:read', 'users:write']
WHERE owner AND revoked_at IS NULL AND NOT scopes && ARRAY ['users:read', 'users:write'];
