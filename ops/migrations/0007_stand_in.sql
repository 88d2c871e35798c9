-- Outages and exposure (written by the programme's owner) -----------------------------------------------------------------------------

ALTER TABLE programmes ADD COLUMN outage text;
COMMENT ON COLUMN programmes.outage IS 'JSON of engine.standin.Outage: the outage under way and what of its budget is used.';

CREATE TABLE outages (
    id           uuid NOT NULL,
    period       integer NOT NULL CHECK (period > 0),
    tenant_id    uuid NOT NULL,
    live         boolean NOT NULL,
    programme_id uuid NOT NULL,
    currency     text,
    used_minor   bigint NOT NULL CHECK (used_minor >= 0),
    started_at   timestamptz NOT NULL,
    ended_at     timestamptz,
    PRIMARY KEY (id, period)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX outages_open ON outages (programme_id) WHERE ended_at IS NULL;
CREATE INDEX outages_of_programme ON outages (programme_id, started_at);
COMMENT ON TABLE outages IS 'One row for each budget of an outage: a change of the policy''s currency begins a new period inside it.';

-- Decisions made in stand-in (written by the card's owner) ----------------------------------------------------------------------------

CREATE TABLE stand_ins (
    id                 uuid PRIMARY KEY,
    tenant_id          uuid NOT NULL,
    live               boolean NOT NULL,
    programme_id       uuid NOT NULL,
    card_id            uuid NOT NULL,
    authorization_id   uuid NOT NULL,
    outage_id          uuid,
    decided_at         timestamptz NOT NULL,
    decision           text NOT NULL CHECK (decision IN ('approved', 'declined')),
    rule               text NOT NULL,
    trigger            text NOT NULL,
    amount_minor       bigint NOT NULL,
    currency           text NOT NULL,
    mcc                text NOT NULL,
    exposure_minor     bigint NOT NULL CHECK (exposure_minor >= 0),
    budget_used_minor  bigint NOT NULL,
    budget_limit_minor bigint,
    response_code      text NOT NULL,
    stan               text NOT NULL,
    rrn                text NOT NULL,
    CHECK (decision = 'approved' OR exposure_minor = 0)
);
CREATE INDEX stand_ins_of_programme ON stand_ins (programme_id, decided_at, id);

-- Group commit, which writes both -----------------------------------------------------------------------------------------------------

DROP FUNCTION commit_batch;

CREATE FUNCTION commit_batch(
    _host text, _shards smallint[], _epochs bigint[],
    _journal journal[],
    _usage card_usage[], _usage_seqs bigint[],
    _accounts accounts[], _account_versions bigint[],
    _holds holds[], _changed_holds holds[],
    _transactions transactions[], _changed_transactions transactions[],
    _lapsed_holds uuid[], _lapsed_authorizations uuid[], _lapsed_at timestamptz[],
    _tombstones tombstones[],
    _entries ledger_entries[],
    _events events[],
    _idempotency idempotency[],
    _cards cards[],
    _declared declared_balances[],
    _programmes programmes[],
    _outages outages[],
    _stand_ins stand_ins[]
) RETURNS void
LANGUAGE plpgsql AS $$
-- Everything that one batch of commands changes, in one transaction. Each *_seqs / *_versions array holds the value that the row must
-- still have: memory that is behind the database must not be written. Errors: ST001 a shard has another owner, ST002 a row was behind.
DECLARE
    _found bigint;
BEGIN
    PERFORM 1 FROM hosts WHERE incarnation = _host FOR SHARE;
    SELECT count(*) INTO _found
        FROM unnest(_shards, _epochs) AS mine (shard, epoch)
        JOIN shards USING (shard, epoch) WHERE shards.host = _host;
    IF _found <> cardinality(_shards) THEN
        RAISE EXCEPTION 'stale epoch' USING ERRCODE = 'ST001';
    END IF;

    INSERT INTO journal SELECT * FROM unnest(_journal);

    IF cardinality(_programmes) > 0 THEN
        INSERT INTO programmes SELECT * FROM unnest(_programmes)
            ON CONFLICT (id) DO UPDATE SET version = excluded.version, seq = excluded.seq, config = excluded.config,
                outage = excluded.outage;
    END IF;
    IF cardinality(_outages) > 0 THEN
        -- In the order given: a period ends before the next one begins.
        INSERT INTO outages SELECT * FROM unnest(_outages)
            ON CONFLICT (id, period) DO UPDATE SET used_minor = excluded.used_minor, ended_at = excluded.ended_at;
    END IF;
    IF cardinality(_stand_ins) > 0 THEN
        INSERT INTO stand_ins SELECT * FROM unnest(_stand_ins);
    END IF;

    IF cardinality(_cards) > 0 THEN
        INSERT INTO cards SELECT * FROM unnest(_cards)
            ON CONFLICT (id) DO UPDATE SET state = excluded.state, state_reason = excluded.state_reason,
                controls = excluded.controls, cardholder_active = excluded.cardholder_active;
        INSERT INTO card_usage (card_id, seq, day, day_count, day_amount_minor)
            SELECT id, 0, '', 0, 0 FROM unnest(_cards)
            ON CONFLICT (card_id) DO NOTHING;
    END IF;

    IF cardinality(_declared) > 0 THEN
        INSERT INTO declared_balances SELECT * FROM unnest(_declared)
            ON CONFLICT (card_id) DO UPDATE SET balance_minor = excluded.balance_minor,
                consumed_minor = excluded.consumed_minor, declared_at = excluded.declared_at;
    END IF;

    UPDATE card_usage u
        SET seq = n.seq, day = n.day, day_count = n.day_count, day_amount_minor = n.day_amount_minor, cvv2_failures = n.cvv2_failures
        FROM unnest(_usage, _usage_seqs) AS n (card_id, seq, day, day_count, day_amount_minor, cvv2_failures, seq_before)
        WHERE u.card_id = n.card_id AND u.seq = n.seq_before;
    GET DIAGNOSTICS _found = ROW_COUNT;
    IF _found <> cardinality(_usage) THEN
        RAISE EXCEPTION 'card behind' USING ERRCODE = 'ST002';
    END IF;

    IF cardinality(_accounts) > 0 THEN
        INSERT INTO accounts
            SELECT id, tenant_id, live, programme_id, kind, currency, 0, 0, 0
            FROM unnest(_accounts, _account_versions)
                AS n (id, tenant_id, live, programme_id, kind, currency, posted_minor, held_minor, version, version_before)
            WHERE version_before = 0
            ON CONFLICT (id) DO NOTHING;
        UPDATE accounts a SET posted_minor = n.posted_minor, held_minor = n.held_minor, version = n.version
            FROM unnest(_accounts, _account_versions)
                AS n (id, tenant_id, live, programme_id, kind, currency, posted_minor, held_minor, version, version_before)
            WHERE a.id = n.id AND a.version = n.version_before;
        GET DIAGNOSTICS _found = ROW_COUNT;
        IF _found <> cardinality(_accounts) THEN
            RAISE EXCEPTION 'account behind' USING ERRCODE = 'ST002';
        END IF;
    END IF;

    IF cardinality(_holds) > 0 THEN
        INSERT INTO holds SELECT * FROM unnest(_holds);
    END IF;
    INSERT INTO transactions SELECT * FROM unnest(_transactions);
    IF cardinality(_lapsed_holds) > 0 THEN
        UPDATE holds SET state = 'lapsed' WHERE id = ANY (_lapsed_holds) AND state = 'held';
        UPDATE transactions t
            SET status = CASE WHEN cleared_minor > 0 THEN 'cleared' ELSE 'lapsed' END, held_minor = 0, updated_at = n.lapsed_at
            FROM unnest(_lapsed_authorizations, _lapsed_at) AS n (id, lapsed_at) WHERE t.id = n.id;
    END IF;
    IF cardinality(_changed_holds) > 0 THEN
        UPDATE holds h SET state = n.state, amount_minor = coalesce(n.amount_minor, h.amount_minor),
                expires_at = coalesce(n.expires_at, h.expires_at)
            FROM unnest(_changed_holds) n WHERE h.id = n.id AND h.state = 'held';
    END IF;
    IF cardinality(_changed_transactions) > 0 THEN
        UPDATE transactions t
            SET status = n.status, hold_id = n.hold_id, approved_minor = n.approved_minor, held_minor = n.held_minor,
                cleared_minor = n.cleared_minor, reversed_minor = n.reversed_minor, decline_reason = n.decline_reason,
                updated_at = n.updated_at, remainder_minor = n.remainder_minor, closed = n.closed
            FROM unnest(_changed_transactions) n WHERE t.id = n.id;
    END IF;
    IF cardinality(_tombstones) > 0 THEN
        INSERT INTO tombstones SELECT * FROM unnest(_tombstones) ON CONFLICT DO NOTHING;
    END IF;

    IF cardinality(_entries) > 0 THEN
        INSERT INTO ledger_entries SELECT * FROM unnest(_entries);
    END IF;
    INSERT INTO events SELECT id, tenant_id, live, type, created_at, data FROM unnest(_events);
    IF cardinality(_idempotency) > 0 THEN
        -- By the database's clock, as whoever looks a key up does: a key is either in force or free, for everybody.
        DELETE FROM idempotency i USING unnest(_idempotency) n
            WHERE i.key_digest = n.key_digest AND i.created_at <= now() - interval '24 hours';
        INSERT INTO idempotency SELECT * FROM unnest(_idempotency);
    END IF;
END $$;
