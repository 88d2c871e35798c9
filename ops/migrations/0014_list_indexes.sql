-- Filters of lists. Tables of the hot path (transactions, events) get none: their pages look at a bounded number of rows.

CREATE INDEX card_products_of_programme ON card_products (programme_id, id);
CREATE INDEX cardholders_of_programme ON cardholders (programme_id, id);
CREATE INDEX cardholders_of_reference ON cardholders (tenant_id, live, external_ref, id) WHERE external_ref IS NOT NULL;
