-- Group commit with types of its own: a table's row type changes with the table, so that commit_batch refuses every batch once a table
-- has gained a column. A release that writes another column adds a type and a function of the next number; commit_batch and its row
-- types stay for processes of the release before.

CREATE TYPE journal_row AS (
    actor_id uuid, seq bigint, epoch bigint, command_key bytea, fingerprint bytea, kind text, command text, inputs text, decision text,
    reply text, recorded_at timestamptz, authorization_id uuid
);
CREATE TYPE usage_row AS (
    card_id uuid, seq bigint, day text, day_count bigint, day_amount_minor bigint, cvv2_failures smallint
);
CREATE TYPE account_row AS (
    id uuid, tenant_id uuid, live boolean, programme_id uuid, kind text, currency text, posted_minor bigint, held_minor bigint,
    version bigint
);
CREATE TYPE hold_row AS (
    id uuid, account_id uuid, card_id uuid, authorization_id uuid, amount_minor bigint, state text, expires_at timestamptz
);
CREATE TYPE transaction_row AS (
    id uuid, tenant_id uuid, live boolean, card_id uuid, cardholder_id uuid, programme_id uuid, seq bigint, kind text, status text,
    hold_id uuid, currency text, requested_minor bigint, approved_minor bigint, held_minor bigint, cleared_minor bigint,
    reversed_minor bigint, decline_reason text, created_at timestamptz, updated_at timestamptz, network_txn_id text, day text,
    remainder_minor bigint, closed text
);
CREATE TYPE tombstone_row AS (
    card_id uuid, reference text, recorded_at timestamptz
);
CREATE TYPE entry_row AS (
    id uuid, transfer_id uuid, account_id uuid, direction text, amount_minor bigint, currency text, authorization_id uuid,
    occurred_at timestamptz
);
CREATE TYPE event_row AS (
    id uuid, tenant_id uuid, live boolean, type text, created_at timestamptz, data text, txid xid8
);
CREATE TYPE claim_row AS (
    key_digest bytea, fingerprint bytea, status smallint, body bytea, created_at timestamptz
);
CREATE TYPE card_row AS (
    id uuid, tenant_id uuid, live boolean, programme_id uuid, card_product_id uuid, cardholder_id uuid, account_id uuid, network text,
    currency text, iin text, last4 text, pan_ref text, exp_month smallint, exp_year smallint, cvk_generation text, state text,
    state_reason text, controls text, cardholder_active boolean, created_at timestamptz
);
CREATE TYPE declared_row AS (
    card_id uuid, balance_minor bigint, consumed_minor bigint, declared_at timestamptz
);
CREATE TYPE programme_row AS (
    id uuid, tenant_id uuid, live boolean, version bigint, seq bigint, config text, decision_secret_sealed bytea, outage text
);
CREATE TYPE outage_row AS (
    id uuid, period integer, tenant_id uuid, live boolean, programme_id uuid, currency text, used_minor bigint, started_at timestamptz,
    ended_at timestamptz
);
CREATE TYPE stand_in_row AS (
    id uuid, tenant_id uuid, live boolean, programme_id uuid, card_id uuid, authorization_id uuid, outage_id uuid,
    decided_at timestamptz, decision text, rule text, trigger text, amount_minor bigint, currency text, mcc text, exposure_minor bigint,
    budget_used_minor bigint, budget_limit_minor bigint, response_code text, stan text, rrn text
);

CREATE FUNCTION commit_batch_v2(
    _host text, _shards smallint[], _epochs bigint[],
    _journal journal_row[],
    _usage usage_row[], _usage_seqs bigint[],
    _accounts account_row[], _account_versions bigint[],
    _holds hold_row[], _changed_holds hold_row[],
    _transactions transaction_row[], _changed_transactions transaction_row[],
    _lapsed_holds uuid[], _lapsed_authorizations uuid[], _lapsed_at timestamptz[],
    _tombstones tombstone_row[],
    _entries entry_row[],
    _events event_row[],
    _idempotency claim_row[],
    _cards card_row[],
    _declared declared_row[],
    _programmes programme_row[],
    _outages outage_row[],
    _stand_ins stand_in_row[]
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

    INSERT INTO journal (
        actor_id, seq, epoch, command_key, fingerprint, kind, command, inputs, decision, reply, recorded_at, authorization_id
    ) SELECT
        actor_id, seq, epoch, command_key, fingerprint, kind, command, inputs, decision, reply, recorded_at, authorization_id
    FROM unnest(_journal);

    IF cardinality(_programmes) > 0 THEN
        INSERT INTO programmes (id, tenant_id, live, version, seq, config, decision_secret_sealed, outage)
            SELECT id, tenant_id, live, version, seq, config, decision_secret_sealed, outage FROM unnest(_programmes)
            ON CONFLICT (id) DO UPDATE SET version = excluded.version, seq = excluded.seq, config = excluded.config,
                outage = excluded.outage;
    END IF;
    IF cardinality(_outages) > 0 THEN
        -- In the order given: a period ends before the next one begins.
        INSERT INTO outages (id, period, tenant_id, live, programme_id, currency, used_minor, started_at, ended_at)
            SELECT id, period, tenant_id, live, programme_id, currency, used_minor, started_at, ended_at FROM unnest(_outages)
            ON CONFLICT (id, period) DO UPDATE SET used_minor = excluded.used_minor, ended_at = excluded.ended_at;
    END IF;
    IF cardinality(_stand_ins) > 0 THEN
        INSERT INTO stand_ins (
            id, tenant_id, live, programme_id, card_id, authorization_id, outage_id, decided_at, decision, rule, trigger, amount_minor,
            currency, mcc, exposure_minor, budget_used_minor, budget_limit_minor, response_code, stan, rrn
        ) SELECT
            id, tenant_id, live, programme_id, card_id, authorization_id, outage_id, decided_at, decision, rule, trigger, amount_minor,
            currency, mcc, exposure_minor, budget_used_minor, budget_limit_minor, response_code, stan, rrn
        FROM unnest(_stand_ins);
    END IF;

    IF cardinality(_cards) > 0 THEN
        INSERT INTO cards (
            id, tenant_id, live, programme_id, card_product_id, cardholder_id, account_id, network, currency, iin, last4, pan_ref,
            exp_month, exp_year, cvk_generation, state, state_reason, controls, cardholder_active, created_at
        ) SELECT
            id, tenant_id, live, programme_id, card_product_id, cardholder_id, account_id, network, currency, iin, last4, pan_ref,
            exp_month, exp_year, cvk_generation, state, state_reason, controls, cardholder_active, created_at
        FROM unnest(_cards)
            ON CONFLICT (id) DO UPDATE SET state = excluded.state, state_reason = excluded.state_reason,
                controls = excluded.controls, cardholder_active = excluded.cardholder_active;
        INSERT INTO card_usage (card_id, seq, day, day_count, day_amount_minor)
            SELECT id, 0, '', 0, 0 FROM unnest(_cards)
            ON CONFLICT (card_id) DO NOTHING;
    END IF;

    IF cardinality(_declared) > 0 THEN
        INSERT INTO declared_balances (card_id, balance_minor, consumed_minor, declared_at)
            SELECT card_id, balance_minor, consumed_minor, declared_at FROM unnest(_declared)
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
        INSERT INTO accounts (id, tenant_id, live, programme_id, kind, currency, posted_minor, held_minor, version)
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
        INSERT INTO holds (id, account_id, card_id, authorization_id, amount_minor, state, expires_at)
            SELECT id, account_id, card_id, authorization_id, amount_minor, state, expires_at FROM unnest(_holds);
    END IF;
    INSERT INTO transactions (
        id, tenant_id, live, card_id, cardholder_id, programme_id, seq, kind, status, hold_id, currency, requested_minor,
        approved_minor, held_minor, cleared_minor, reversed_minor, decline_reason, created_at, updated_at, network_txn_id, day,
        remainder_minor, closed
    ) SELECT
        id, tenant_id, live, card_id, cardholder_id, programme_id, seq, kind, status, hold_id, currency, requested_minor,
        approved_minor, held_minor, cleared_minor, reversed_minor, decline_reason, created_at, updated_at, network_txn_id, day,
        remainder_minor, closed
    FROM unnest(_transactions);
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
        INSERT INTO tombstones (card_id, reference, recorded_at)
            SELECT card_id, reference, recorded_at FROM unnest(_tombstones) ON CONFLICT DO NOTHING;
    END IF;

    IF cardinality(_entries) > 0 THEN
        INSERT INTO ledger_entries (id, transfer_id, account_id, direction, amount_minor, currency, authorization_id, occurred_at)
            SELECT id, transfer_id, account_id, direction, amount_minor, currency, authorization_id, occurred_at FROM unnest(_entries);
    END IF;
    INSERT INTO events (id, tenant_id, live, type, created_at, data)
        SELECT id, tenant_id, live, type, created_at, data FROM unnest(_events);
    IF cardinality(_idempotency) > 0 THEN
        -- A key is free again when it is too old by the database's clock and by the claiming host's: one wrong clock frees none.
        DELETE FROM idempotency i USING unnest(_idempotency) n
            WHERE i.key_digest = n.key_digest AND i.created_at <= least(now(), n.created_at) - interval '24 hours';
        INSERT INTO idempotency (key_digest, fingerprint, status, body, created_at)
            SELECT key_digest, fingerprint, status, body, created_at FROM unnest(_idempotency);
    END IF;
END $$;
