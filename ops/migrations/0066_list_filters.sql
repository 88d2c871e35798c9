-- Filters of lists. An index of transactions is written with each decision, so there are few and they are narrow:
--   transactions_of_programme  the programme, or the category code under each programme of a tenant
--   transactions_declined      the reason of a decline, or any decline; approvals do not pay for it
--   transactions_of_rrn        the retrieval reference number
-- The other filters use transactions_of_card, transactions_of_network and transactions_of_tenant.

ALTER TABLE transactions ADD COLUMN mcc text, ADD COLUMN rrn text;
COMMENT ON COLUMN transactions.mcc IS 'Merchant category code (ISO 8583 DE18).';
COMMENT ON COLUMN transactions.rrn IS 'Retrieval reference number (ISO 8583 DE37).';

UPDATE transactions t SET mcc = j.command::json ->> 'mcc', rrn = j.command::json #>> '{wire,rrn}'
FROM journal j WHERE j.actor_id = t.card_id AND j.seq = t.seq;

CREATE INDEX transactions_of_programme ON transactions (programme_id, mcc, id);
CREATE INDEX transactions_declined ON transactions (tenant_id, live, decline_reason, id) WHERE decline_reason IS NOT NULL;
CREATE INDEX transactions_of_rrn ON transactions (tenant_id, live, rrn) WHERE rrn IS NOT NULL;

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

CREATE INDEX cards_of_last4 ON cards (tenant_id, live, last4, id);
CREATE INDEX cards_of_state ON cards (tenant_id, live, state, id);
CREATE INDEX cardholders_of_status ON cardholders (tenant_id, live, status, id);
