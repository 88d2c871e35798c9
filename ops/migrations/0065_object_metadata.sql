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
