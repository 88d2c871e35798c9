-- Users have sessions of the console, and their acts are in the audit log.

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
