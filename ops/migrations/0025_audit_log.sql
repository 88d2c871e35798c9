-- The audit log: who administered what, when, with what effect.

CREATE TABLE audit_log (
    id          uuid        PRIMARY KEY,
    tenant_id   uuid,
    live        boolean,
    recorded_at timestamptz NOT NULL,
    actor_kind  text        NOT NULL CHECK (actor_kind IN ('client', 'operator')),
    actor       text        NOT NULL,
    act         text        NOT NULL,
    object_kind text        NOT NULL,
    object_id   text,
    before      text,
    after       text,
    request_id  text        NOT NULL,
    CHECK ((tenant_id IS NULL) = (live IS NULL))
);
CREATE INDEX audit_log_of_tenant ON audit_log (tenant_id, live, id);
CREATE INDEX audit_log_of_object ON audit_log (tenant_id, object_id, id);
CREATE INDEX audit_log_of_actor ON audit_log (tenant_id, actor, id);
COMMENT ON TABLE audit_log IS 'Append-only; a row is written in the transaction of its act. Rows without a tenant are about the whole installation. before and after are JSON of the members that differ, without secrets and personal data.';

CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TYPE act_row AS (
    id          uuid,
    tenant_id   uuid,
    live        boolean,
    recorded_at timestamptz,
    actor_kind  text,
    actor       text,
    act         text,
    object_kind text,
    object_id   text,
    before      text,
    after       text,
    request_id  text
);
COMMENT ON TYPE act_row IS 'The rows of record_acts; actors/journal/rows.py has the fields in this order.';

-- An interrupted change of a cardholder is finished on behalf of the client that began it.
ALTER TABLE cardholder_status_changes ADD COLUMN actor text, ADD COLUMN request_id text;
