-- The issuer's own records: a reference and key-value pairs on programmes, card products, cardholders, cards and transactions.
--
-- The API writes these rows. Owners of cards and programmes do not keep them in memory: they take no part in a decision, and their
-- size would count against the cards that a host can hold.

CREATE TABLE object_metadata (
    object_id    uuid PRIMARY KEY,
    tenant_id    uuid NOT NULL REFERENCES tenants,
    live         boolean NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('programme', 'card_product', 'cardholder', 'card', 'transaction')),
    external_ref text,
    metadata     text NOT NULL,
    reserved_at  timestamptz
) WITH (fillfactor = 80);
CREATE INDEX object_metadata_of_reference ON object_metadata (tenant_id, live, external_ref, object_id) WHERE external_ref IS NOT NULL;
CREATE INDEX object_metadata_reserved ON object_metadata (reserved_at) WHERE reserved_at IS NOT NULL;
COMMENT ON TABLE object_metadata IS 'External references and metadata by object; an object without a row has none. The reference of a cardholder is a column of its own row.';
COMMENT ON COLUMN object_metadata.metadata IS 'JSON object of texts.';
COMMENT ON COLUMN object_metadata.reserved_at IS 'Set while the owner creates the object. A sweeper deletes rows of objects that were never created.';

-- Columns for filters of transactions (0022).

ALTER TABLE transactions ADD COLUMN mcc text, ADD COLUMN rrn text;
COMMENT ON COLUMN transactions.mcc IS 'Merchant category code (ISO 8583 DE18).';
COMMENT ON COLUMN transactions.rrn IS 'Retrieval reference number (ISO 8583 DE37).';

-- Processes of the previous release write transactions without these columns, in the transaction of the journal row.
CREATE FUNCTION transaction_search_columns() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT command::json ->> 'mcc', command::json #>> '{wire,rrn}' INTO NEW.mcc, NEW.rrn
    FROM journal WHERE actor_id = NEW.card_id AND seq = NEW.seq;
    RETURN NEW;
END $$;
CREATE TRIGGER transaction_search_columns BEFORE INSERT ON transactions
    FOR EACH ROW WHEN (NEW.mcc IS NULL) EXECUTE FUNCTION transaction_search_columns();

CREATE TYPE transaction_row_v2 AS (
    id uuid, tenant_id uuid, live boolean, card_id uuid, cardholder_id uuid, programme_id uuid, seq bigint, kind text, status text,
    hold_id uuid, currency text, requested_minor bigint, approved_minor bigint, held_minor bigint, cleared_minor bigint,
    reversed_minor bigint, decline_reason text, created_at timestamptz, updated_at timestamptz, network_txn_id text, day text,
    remainder_minor bigint, closed text, mcc text, rrn text
);
