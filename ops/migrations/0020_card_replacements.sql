-- Cards and their replacements, written by the owner of both in one transaction with them; and the renewals that are under way.

CREATE TABLE card_replacements (
    card_id        uuid        PRIMARY KEY,
    replacement_id uuid        NOT NULL UNIQUE,
    reason         text        NOT NULL CHECK (reason IN ('lost', 'stolen', 'damaged', 'expired')),
    replaced_at    timestamptz NOT NULL,
    CHECK (card_id <> replacement_id)
);
COMMENT ON TABLE card_replacements IS 'A card is replaced at most once, and a card replaces at most one other. The counters, the account and the declared balance continue.';
CREATE TRIGGER card_replacements_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON card_replacements
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TYPE replacement_row AS (
    card_id uuid, replacement_id uuid, reason text, replaced_at timestamptz
);

CREATE INDEX cards_of_product_expiring ON cards (card_product_id, exp_year, exp_month, id) WHERE state = 'active';
COMMENT ON INDEX cards_of_product_expiring IS 'For renewals: the active cards of a product that expire soon.';

CREATE TABLE card_renewals (
    card_id   uuid        PRIMARY KEY,
    resume_at timestamptz NOT NULL
);
CREATE INDEX card_renewals_age ON card_renewals (resume_at);
COMMENT ON TABLE card_renewals IS 'Lease of one API server on the renewal of a card. A renewal that fails is tried again after resume_at.';
