-- Filters of lists. An index of transactions is written with each decision, so there are few and they are narrow:
--   transactions_of_programme  the programme, or the category code under each programme of a tenant
--   transactions_declined      the reason of a decline, or any decline; approvals do not pay for it
--   transactions_of_rrn        the retrieval reference number
-- The other filters use transactions_of_card, transactions_of_network and transactions_of_tenant.
--
-- "stanchion migrate" fills the columns and builds the indexes without blocking writes before it applies this file
-- (ops/database/list_filters.py); an empty database gets the indexes here.

CREATE INDEX IF NOT EXISTS transactions_of_programme ON transactions (programme_id, mcc, id);
CREATE INDEX IF NOT EXISTS transactions_declined ON transactions (tenant_id, live, decline_reason, id) WHERE decline_reason IS NOT NULL;
CREATE INDEX IF NOT EXISTS transactions_of_rrn ON transactions (tenant_id, live, rrn) WHERE rrn IS NOT NULL;
CREATE INDEX IF NOT EXISTS cards_of_last4 ON cards (tenant_id, live, last4, id);
CREATE INDEX IF NOT EXISTS cards_of_state ON cards (tenant_id, live, state, id);
CREATE INDEX IF NOT EXISTS cardholders_of_status ON cardholders (tenant_id, live, status, id);
