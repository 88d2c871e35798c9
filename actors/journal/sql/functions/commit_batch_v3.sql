CREATE OR REPLACE FUNCTION commit_batch_v3(
    _host text, _shards smallint[], _epochs bigint[],
    _journal journal_row[],
    _usage usage_row[], _usage_seqs bigint[],
    _accounts account_row[], _account_versions bigint[],
    _holds hold_row[], _changed_holds hold_row[],
    _transactions transaction_row_v2[], _changed_transactions transaction_row_v2[],
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
-- Writes all changes of one batch of commands in one transaction. Each *_seqs and *_versions array holds the values that the rows must
-- still have: state of memory that is older than its row is not written. Errors: ST001 another host owns a shard, ST002 memory is older
-- than a row. Arrays of rare rows are null if empty; actors/journal/rows.py has their fields in the order of these types.
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

    INSERT INTO journal_rows (
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
        -- In the given order: a period ends before the next period begins.
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
    -- Nulls for the values that the view transactions supplies. The cardholder is always that of the card.
    INSERT INTO transaction_rows (
        id, tenant_id, live, card_id, programme_id, seq, kind, status, hold_id, currency, requested_minor, approved_minor, held_minor,
        cleared_minor, reversed_minor, decline_reason, created_at, updated_at, network_txn_id, day, remainder_minor, closed, mcc, rrn
    ) SELECT
        id, tenant_id, live, card_id, programme_id, seq, CASE WHEN kind <> 'purchase' OR hold_id IS NULL THEN kind END,
        nullif(status, 'pending'), CASE WHEN kind <> 'purchase' OR hold_id <> opening_hold(id) THEN hold_id END, currency,
        requested_minor, nullif(approved_minor, requested_minor), nullif(held_minor, requested_minor), nullif(cleared_minor, 0),
        nullif(reversed_minor, 0), decline_reason, created_at, nullif(updated_at, created_at), network_txn_id,
        nullif(day, (created_at AT TIME ZONE 'UTC')::date::text), nullif(remainder_minor, requested_minor), closed, mcc, rrn
    FROM unnest(_transactions);
    IF cardinality(_lapsed_holds) > 0 THEN
        UPDATE holds SET state = 'lapsed' WHERE id = ANY (_lapsed_holds) AND state = 'held';
        UPDATE transaction_rows t
            SET status = CASE WHEN cleared_minor > 0 THEN 'cleared' ELSE 'lapsed' END, held_minor = 0, updated_at = n.lapsed_at
            FROM unnest(_lapsed_holds, _lapsed_authorizations, _lapsed_at) AS n (hold_id, id, lapsed_at)
            JOIN holds h ON h.id = n.hold_id JOIN cards c ON c.id = h.card_id
            WHERE t.tenant_id = c.tenant_id AND t.live = c.live AND t.id = n.id;
    END IF;
    IF cardinality(_changed_holds) > 0 THEN
        UPDATE holds h SET state = n.state, amount_minor = coalesce(n.amount_minor, h.amount_minor),
                expires_at = coalesce(n.expires_at, h.expires_at)
            FROM unnest(_changed_holds) n WHERE h.id = n.id AND h.state = 'held';
    END IF;
    IF cardinality(_changed_transactions) > 0 THEN
        UPDATE transaction_rows t
            SET kind = CASE WHEN t.kind IS NOT NULL THEN t.kind WHEN n.hold_id IS NULL THEN 'purchase' END,
                status = nullif(n.status, 'pending'),
                hold_id = CASE WHEN t.kind IS NOT NULL OR n.hold_id <> opening_hold(t.id) THEN n.hold_id END,
                approved_minor = nullif(n.approved_minor, t.requested_minor), held_minor = nullif(n.held_minor, t.requested_minor),
                cleared_minor = nullif(n.cleared_minor, 0), reversed_minor = nullif(n.reversed_minor, 0),
                decline_reason = n.decline_reason, updated_at = nullif(n.updated_at, t.created_at),
                remainder_minor = nullif(n.remainder_minor, t.requested_minor), closed = n.closed
            -- Hosts of the release before name neither tenant nor mode.
            FROM (SELECT u.*, coalesce(u.tenant_id, (SELECT o.tenant_id FROM transaction_rows o WHERE o.id = u.id)) AS owner_id,
                      coalesce(u.live, (SELECT o.live FROM transaction_rows o WHERE o.id = u.id)) AS mode
                  FROM unnest(_changed_transactions) u) n
            WHERE t.tenant_id = n.owner_id AND t.live = n.mode AND t.id = n.id;
    END IF;
    IF cardinality(_tombstones) > 0 THEN
        INSERT INTO tombstones (card_id, reference, recorded_at)
            SELECT card_id, reference, recorded_at FROM unnest(_tombstones) ON CONFLICT DO NOTHING;
    END IF;

    IF cardinality(_entries) > 0 THEN
        INSERT INTO ledger_entries (id, transfer_id, account_id, direction, amount_minor, currency, authorization_id, occurred_at)
            SELECT id, transfer_id, account_id, direction, amount_minor, currency, authorization_id, occurred_at FROM unnest(_entries);
    END IF;
    INSERT INTO event_rows (id, tenant_id, live, type, created_at, data)
        SELECT id, tenant_id, live, type, created_at, data FROM unnest(_events);
    IF cardinality(_idempotency) > 0 THEN
        -- A key expires by the database's clock and by the host's clock: one wrong clock frees no key.
        DELETE FROM idempotency i USING unnest(_idempotency) n
            WHERE i.key_digest = n.key_digest AND i.created_at <= least(now(), n.created_at) - interval '24 hours';
        INSERT INTO idempotency (key_digest, fingerprint, status, body, created_at)
            SELECT key_digest, fingerprint, status, body, created_at FROM unnest(_idempotency);
    END IF;
END $$;
