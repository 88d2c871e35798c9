-- Compact rows of transactions. The table transactions becomes transaction_rows; a view of its name shows every row in full, as the
-- release before wrote it. A null in one of these columns of transaction_rows stands for the value that most rows have:
--
--   kind                                           purchase, of a transaction that has a hold
--   hold_id                                        if kind is null, the hold of the command that opened the transaction
--   status                                         pending
--   approved_minor, held_minor, remainder_minor    requested_minor
--   cleared_minor, reversed_minor                  0
--   updated_at                                     created_at
--   day                                            the day of created_at in UTC
--   cardholder_id                                  the cardholder of the card, who never changes
--
-- So a plain approval stores none of them. commit_batch_v3 and commit_approval.sql write the table. Processes of the release before read
-- the view, and write through that function or the triggers below.
--
-- "stanchion migrate" builds the indexes without blocking writes before it applies this file (ops/database/concurrent_indexes.py). Each
-- replaces a wider one, which the release before needs until the next file:
--   transactions_key           the primary key on the id alone: this one serves lists, too
--   transactions_of_reference  transactions_of_rrn: eight bytes of a hash instead of tenant, mode and number
--   journal_command            journal_command_key: keys have sixteen bytes, which take the room of twenty-four, and fifteen take sixteen.
--                              The first byte can be left out: that of an id is the time's, and a digest is long enough without it.
--   holds_of_account, holds_expiring    holds_open and holds_due: their conditions allow queries by account, and by expiry, and no others.
--                              A plan that was made while few holds were open looked for one hold by its id among all open ones.

SET LOCAL lock_timeout = '500ms';

DO $$ BEGIN
    -- Of an index that exists, the statement would still lock the table: commits would wait, in another order than this file locks.
    IF to_regclass('journal_command') IS NULL THEN
        CREATE UNIQUE INDEX IF NOT EXISTS transactions_key ON transactions (tenant_id, live, id);
        CREATE INDEX IF NOT EXISTS transactions_of_reference ON transactions (hashtextextended(rrn, uuid_hash_extended(tenant_id, live::int))) WHERE rrn IS NOT NULL;
        CREATE INDEX IF NOT EXISTS holds_of_account ON holds (account_id) WHERE state = 'held' AND account_id IS NOT NULL;
        CREATE INDEX IF NOT EXISTS holds_expiring ON holds (expires_at) WHERE state = 'held' AND expires_at IS NOT NULL;
        CREATE UNIQUE INDEX IF NOT EXISTS journal_command ON journal_rows (substring(command_key FROM 2));
    END IF;
END $$;

-- Commits wait behind this lock, and it waits behind every reader. Beside a long one (export, audit, dump) the migration gives up after
-- half a second and is repeated.
LOCK TABLE transactions IN ACCESS EXCLUSIVE MODE;

ALTER TABLE transactions RENAME TO transaction_rows;
ALTER TABLE transaction_rows
    ALTER COLUMN cardholder_id DROP NOT NULL, ALTER COLUMN kind DROP NOT NULL, ALTER COLUMN status DROP NOT NULL,
    ALTER COLUMN approved_minor DROP NOT NULL, ALTER COLUMN held_minor DROP NOT NULL, ALTER COLUMN cleared_minor DROP NOT NULL,
    ALTER COLUMN reversed_minor DROP NOT NULL, ALTER COLUMN updated_at DROP NOT NULL, ALTER COLUMN day DROP NOT NULL,
    ALTER COLUMN remainder_minor DROP NOT NULL;
-- Follow-ups make a row longer. In this room they change it in place, without a new entry in each index.
ALTER TABLE transaction_rows SET (fillfactor = 75);
COMMENT ON TABLE transaction_rows IS 'Every transaction, without the values that most of them have: see the view transactions.';

CREATE FUNCTION opening_hold(_transaction_id uuid) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT encode(set_byte(uuid_send(_transaction_id), 14, get_byte(uuid_send(_transaction_id), 14) # 1), 'hex')::uuid
$$;
COMMENT ON FUNCTION opening_hold IS 'The id of the hold that is placed by the command which opens the transaction (engine.ids).';

CREATE VIEW transactions AS
    SELECT id, tenant_id, live, card_id,
           coalesce(cardholder_id, (SELECT c.cardholder_id FROM cards c WHERE c.id = card_id)) AS cardholder_id,
           programme_id, seq, coalesce(kind, 'purchase') AS kind, coalesce(status, 'pending') AS status,
           CASE WHEN kind IS NULL THEN coalesce(hold_id, opening_hold(id)) ELSE hold_id END AS hold_id,
           currency, requested_minor, coalesce(approved_minor, requested_minor) AS approved_minor,
           coalesce(held_minor, requested_minor) AS held_minor, coalesce(cleared_minor, 0) AS cleared_minor,
           coalesce(reversed_minor, 0) AS reversed_minor, decline_reason, created_at, coalesce(updated_at, created_at) AS updated_at,
           network_txn_id, coalesce(day, to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')) AS day,
           coalesce(remainder_minor, requested_minor) AS remainder_minor, closed, mcc, rrn
    FROM transaction_rows;
COMMENT ON VIEW transactions IS 'The rows of transaction_rows with all values.';
COMMENT ON COLUMN transactions.remainder_minor IS 'What is held, or was when the hold lapsed and has not been cleared since.';
COMMENT ON COLUMN transactions.seq IS 'The journal row (card_id, seq) that holds the request, the decision and its trace.';

-- Statements of the release before, and its commit functions until they are replaced. They store rows in full.
CREATE FUNCTION write_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO transaction_rows (
            id, tenant_id, live, card_id, cardholder_id, programme_id, seq, kind, status, hold_id, currency, requested_minor,
            approved_minor, held_minor, cleared_minor, reversed_minor, decline_reason, created_at, updated_at, network_txn_id, day,
            remainder_minor, closed, mcc, rrn
        ) VALUES (
            NEW.id, NEW.tenant_id, NEW.live, NEW.card_id, NEW.cardholder_id, NEW.programme_id, NEW.seq, NEW.kind, NEW.status, NEW.hold_id,
            NEW.currency, NEW.requested_minor, NEW.approved_minor, NEW.held_minor, NEW.cleared_minor, NEW.reversed_minor,
            NEW.decline_reason, NEW.created_at, NEW.updated_at, NEW.network_txn_id, NEW.day, NEW.remainder_minor, NEW.closed, NEW.mcc,
            NEW.rrn
        );
    ELSE
        UPDATE transaction_rows
            SET card_id = NEW.card_id, cardholder_id = NEW.cardholder_id, programme_id = NEW.programme_id, seq = NEW.seq,
                kind = NEW.kind, status = NEW.status, hold_id = NEW.hold_id, currency = NEW.currency,
                requested_minor = NEW.requested_minor, approved_minor = NEW.approved_minor, held_minor = NEW.held_minor,
                cleared_minor = NEW.cleared_minor, reversed_minor = NEW.reversed_minor, decline_reason = NEW.decline_reason,
                created_at = NEW.created_at, updated_at = NEW.updated_at, network_txn_id = NEW.network_txn_id, day = NEW.day,
                remainder_minor = NEW.remainder_minor, closed = NEW.closed, mcc = NEW.mcc, rrn = NEW.rrn
            WHERE tenant_id = OLD.tenant_id AND live = OLD.live AND id = OLD.id;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER transactions_write INSTEAD OF INSERT OR UPDATE ON transactions FOR EACH ROW EXECUTE FUNCTION write_transaction();

-- Processes of the release before use the view at once, with the rights that they have on the table.
DO $$
DECLARE
    _right record;
BEGIN
    FOR _right IN
        SELECT a.privilege_type AS privilege, quote_ident(pg_get_userbyid(a.grantee)) AS role
        FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
        WHERE c.oid = 'transaction_rows'::regclass AND a.grantee NOT IN (0, c.relowner)
            AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
    LOOP
        EXECUTE format('GRANT %s ON transactions TO %s', _right.privilege, _right.role);
    END LOOP;
END $$;
