-- Showing a card to its holder: sessions whose page shows the card number once, and the log of who opened what.

CREATE TABLE reveal_sessions (
    id             uuid        PRIMARY KEY,
    tenant_id      uuid        NOT NULL REFERENCES tenants,
    live           boolean     NOT NULL,
    card_id        uuid        NOT NULL,
    token_digest   bytea       NOT NULL UNIQUE,
    parent_origins text[]      NOT NULL DEFAULT '{}',
    created_at     timestamptz NOT NULL,
    expires_at     timestamptz NOT NULL,
    viewed_at      timestamptz
);
CREATE INDEX reveal_sessions_expiry ON reveal_sessions (expires_at);
COMMENT ON COLUMN reveal_sessions.viewed_at IS 'Set by the one view; committed, with its row of the log, before the card number is opened.';

CREATE TABLE custody_log (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL,
    tenant_id  uuid        NOT NULL,
    live       boolean     NOT NULL,
    card_id    uuid        NOT NULL,
    session_id uuid        NOT NULL,
    act        text        NOT NULL CHECK (act IN ('opened', 'viewed', 'refused')),
    actor      text        NOT NULL,
    purpose    text        NOT NULL
);
CREATE INDEX custody_log_age ON custody_log (at);
CREATE INDEX custody_log_of_card ON custody_log (card_id, id);
COMMENT ON TABLE custody_log IS 'Who was given a card number, when and for which purpose. Rows are kept for a year.';

CREATE FUNCTION keep_custody_log() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.at < now() - interval '365 days' THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION 'rows of % are kept for a year', TG_TABLE_NAME;
END $$;
CREATE TRIGGER custody_log_kept BEFORE DELETE ON custody_log
    FOR EACH ROW EXECUTE FUNCTION keep_custody_log();
CREATE TRIGGER custody_log_unchanged BEFORE UPDATE OR TRUNCATE ON custody_log
    FOR EACH STATEMENT EXECUTE FUNCTION keep_custody_log();
