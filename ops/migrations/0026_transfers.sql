-- Transfers, and the balances of funding sources and settlement accounts.
--
-- Triggers write both tables, in the transaction of the journal row or of the entry. So commits of the previous release, which keep
-- coming during an upgrade, are included.

CREATE TABLE transfers (
    id           uuid PRIMARY KEY,
    tenant_id    uuid NOT NULL,
    live         boolean NOT NULL,
    programme_id uuid NOT NULL,
    account_id   uuid NOT NULL,
    card_id      uuid NOT NULL,
    seq          bigint NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('load', 'unload', 'adjustment', 'fee')),
    direction    text NOT NULL CHECK (direction IN ('debit', 'credit')),
    amount_minor bigint NOT NULL CHECK (amount_minor > 0),
    currency     text NOT NULL,
    external_ref text,
    description  text,
    metadata     text NOT NULL,
    created_at   timestamptz NOT NULL,
    reversal_id  uuid UNIQUE,
    reversed_at  timestamptz,
    CHECK ((reversal_id IS NULL) = (reversed_at IS NULL))
) WITH (fillfactor = 90);
CREATE INDEX transfers_of_tenant ON transfers (tenant_id, live, id);
CREATE INDEX transfers_of_account ON transfers (account_id, id);
CREATE INDEX transfers_of_programme ON transfers (programme_id, id);
CREATE INDEX transfers_of_reference ON transfers (tenant_id, live, external_ref, id) WHERE external_ref IS NOT NULL;
COMMENT ON TABLE transfers IS 'Money between an account and its programme''s funding source, from the journal: the row (card_id, seq) holds the command.';
COMMENT ON COLUMN transfers.id IS 'The transfer id of the two entries.';
COMMENT ON COLUMN transfers.direction IS 'Seen from the account: a credit raises its balance.';
COMMENT ON COLUMN transfers.reversal_id IS 'The transfer id of the two opposite entries.';

-- The transfer of a command has its id with 0x02 flipped in its fifteenth byte (engine/ids.py).
CREATE FUNCTION transfer_of_command(_command jsonb) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT encode(set_byte(sent, 14, get_byte(sent, 14) # 2), 'hex')::uuid FROM uuid_send((_command ->> 'id')::uuid) AS sent
$$;

CREATE FUNCTION record_transfer() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    _command jsonb := NEW.command::jsonb;
BEGIN
    IF NEW.kind = 'reverse_transfer' THEN
        UPDATE transfers SET reversal_id = transfer_of_command(_command), reversed_at = NEW.recorded_at
            WHERE id = (_command #>> '{transfer,id}')::uuid;
        RETURN NULL;
    END IF;
    INSERT INTO transfers (
        id, tenant_id, live, programme_id, account_id, card_id, seq, kind, direction, amount_minor, currency, external_ref, description,
        metadata, created_at
    ) SELECT
        transfer_of_command(_command), c.tenant_id, c.live, c.programme_id, c.account_id, c.id, NEW.seq,
        coalesce(_command ->> 'kind', 'load'), coalesce(_command ->> 'direction', 'credit'), (_command ->> 'amount_minor')::bigint,
        _command ->> 'currency', _command ->> 'external_ref', _command ->> 'description', coalesce(_command ->> 'metadata', '{}'),
        NEW.recorded_at
    FROM cards c WHERE c.id = NEW.actor_id
    ON CONFLICT (id) DO NOTHING;
    RETURN NULL;
END $$;
-- Deferred: a commit writes the journal before the card.
CREATE CONSTRAINT TRIGGER journal_transfers AFTER INSERT ON journal DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.kind IN ('load', 'transfer', 'reverse_transfer')) EXECUTE FUNCTION record_transfer();

CREATE TABLE account_sums (
    account_id   uuid NOT NULL,
    shard        smallint NOT NULL,
    posted_minor bigint NOT NULL,
    entries      bigint NOT NULL,
    PRIMARY KEY (account_id, shard)
) WITH (fillfactor = 50);
COMMENT ON TABLE account_sums IS 'Sums of the entries of funding sources and settlement accounts, one row for each shard of the cards on the other side. Only the owner of a shard writes its row, so no row is contended, and a balance is the sum of at most 257 rows.';
COMMENT ON COLUMN account_sums.shard IS '-1 for the entries before this table.';

CREATE FUNCTION sum_entries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO account_sums AS s (account_id, shard, posted_minor, entries)
        -- The id of an entry derives from its command, which is on the shard of the card.
        SELECT e.account_id, get_byte(uuid_send(e.id), 15),
            sum(CASE e.direction WHEN 'credit' THEN e.amount_minor ELSE -e.amount_minor END), count(*)
        FROM new_entries e JOIN accounts a ON a.id = e.account_id AND a.kind <> 'card'
        GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (account_id, shard) DO UPDATE SET posted_minor = s.posted_minor + excluded.posted_minor,
        entries = s.entries + excluded.entries;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_entries_sums AFTER INSERT ON ledger_entries
    REFERENCING NEW TABLE AS new_entries FOR EACH STATEMENT EXECUTE FUNCTION sum_entries();

CREATE VIEW tenant_ledger_entries AS
    SELECT e.id, e.transfer_id, e.account_id, e.direction, e.amount_minor, e.currency, e.authorization_id, e.occurred_at AS created_at,
        a.tenant_id, a.live
    FROM ledger_entries e JOIN accounts a ON a.id = e.account_id;
COMMENT ON VIEW tenant_ledger_entries IS 'Entries with the tenant and the mode of their accounts.';

CREATE INDEX accounts_of_tenant ON accounts (tenant_id, live, id);
CREATE INDEX accounts_of_programme ON accounts (programme_id, id);
