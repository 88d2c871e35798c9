-- Authorization rules of issuers, their versions, and the decisions that they matched. Owners of programmes and cards write them.

CREATE TABLE authorization_rules (
    id           uuid PRIMARY KEY,
    tenant_id    uuid NOT NULL,
    live         boolean NOT NULL,
    programme_id uuid NOT NULL,
    scope_type   text NOT NULL CHECK (scope_type IN ('programme', 'card_product', 'card')),
    scope_id     uuid NOT NULL,
    name         text NOT NULL,
    state        text NOT NULL CHECK (state IN ('draft', 'shadow', 'active', 'retired')),
    version      integer NOT NULL CHECK (version > 0),
    rule         text NOT NULL,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX authorization_rules_of_tenant ON authorization_rules (tenant_id, live, id);
CREATE INDEX authorization_rules_of_scope ON authorization_rules (scope_id, id);
CREATE INDEX authorization_rules_of_programme ON authorization_rules (programme_id) WHERE scope_type <> 'card' AND state <> 'retired';
COMMENT ON TABLE authorization_rules IS 'The present version of each authorization rule. The owner of the programme or card keeps all but the retired ones in memory.';
COMMENT ON COLUMN authorization_rules.rule IS 'JSON of engine.rules.model.Rule.';

CREATE TABLE authorization_rule_versions (
    rule_id    uuid NOT NULL,
    version    integer NOT NULL,
    rule       text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (rule_id, version)
);
COMMENT ON TABLE authorization_rule_versions IS 'Decisions name the versions that they used; replays read them here. State and scope are those at the beginning of the version.';
CREATE TRIGGER authorization_rule_versions_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON authorization_rule_versions
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE rule_matches (
    rule_id          uuid NOT NULL,
    decision_id      uuid NOT NULL,
    version          integer NOT NULL,
    shadow           boolean NOT NULL,
    authorization_id uuid NOT NULL,
    card_id          uuid NOT NULL,
    day              text NOT NULL,
    decided          text NOT NULL CHECK (decided IN ('approved', 'declined')),
    amount_minor     bigint NOT NULL,
    currency         text NOT NULL,
    mcc              text NOT NULL,
    country          text NOT NULL,
    decided_at       timestamptz NOT NULL,
    PRIMARY KEY (rule_id, decision_id)
);
CREATE INDEX rule_matches_in_order ON rule_matches (rule_id, decided_at);
COMMENT ON TABLE rule_matches IS 'Decisions that an active rule declined, or that a shadow rule would have declined. decision_id is the id of the command: that of the authorization, or of an increment.';
COMMENT ON COLUMN rule_matches.amount_minor IS 'The requested amount.';

CREATE TYPE rule_row AS (
    id uuid, tenant_id uuid, live boolean, programme_id uuid, scope_type text, scope_id uuid, name text, state text, version integer,
    rule text, created_at timestamptz, updated_at timestamptz
);
COMMENT ON TYPE rule_row IS 'The rows of record_rules; actors/journal/rows.py has the fields in this order.';
CREATE TYPE rule_match_row AS (
    rule_id uuid, decision_id uuid, version integer, shadow boolean, authorization_id uuid, card_id uuid, day text, decided text,
    amount_minor bigint, currency text, mcc text, country text, decided_at timestamptz
);
COMMENT ON TYPE rule_match_row IS 'The rows of record_rule_matches; actors/journal/rows.py has the fields in this order.';
