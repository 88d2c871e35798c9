-- Taking and releasing shards -------------------------------------------------------------------------------------------------------

CREATE FUNCTION take_shards(_host text, _shards smallint[]) RETURNS TABLE (taken_shard smallint, new_epoch bigint)
LANGUAGE plpgsql AS $$
BEGIN
    -- First the shards, so that takers queue; then their owners' rows, so that a commit under way ends before the epoch rises.
    PERFORM 1 FROM shards WHERE shard = ANY (_shards) ORDER BY shard FOR UPDATE;
    PERFORM 1 FROM hosts WHERE incarnation IN (SELECT host FROM shards WHERE shard = ANY (_shards))
        ORDER BY incarnation FOR UPDATE;
    RETURN QUERY UPDATE shards SET epoch = epoch + 1, host = _host WHERE shard = ANY (_shards) RETURNING shard, epoch;
END $$;

CREATE FUNCTION release_shards(_host text, _shards smallint[]) RETURNS void
LANGUAGE sql AS $$
    UPDATE shards SET epoch = epoch + 1, host = NULL WHERE shard = ANY (_shards) AND host = _host;
$$;

-- Group commit ----------------------------------------------------------------------------------------------------------------------

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
    _programmes programmes[]
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
            ON CONFLICT (id) DO UPDATE SET version = excluded.version, seq = excluded.seq, config = excluded.config;
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

CREATE FUNCTION renew_shards(_host text, _shards smallint[]) RETURNS TABLE (renewed_shard smallint, new_epoch bigint)
LANGUAGE plpgsql AS $$
-- A host that does not know whether its last commit happened takes new epochs for what it still owns; a commit that is still under way
-- somewhere ends before that, or fails after it. ST001 when another host has taken one of the shards.
DECLARE
    _found bigint;
BEGIN
    PERFORM 1 FROM shards WHERE shard = ANY (_shards) ORDER BY shard FOR UPDATE;
    PERFORM 1 FROM hosts WHERE incarnation = _host FOR UPDATE;
    SELECT count(*) INTO _found FROM shards WHERE shard = ANY (_shards) AND host = _host;
    IF _found <> cardinality(_shards) THEN
        RAISE EXCEPTION 'stale epoch' USING ERRCODE = 'ST001';
    END IF;
    RETURN QUERY UPDATE shards SET epoch = epoch + 1 WHERE shard = ANY (_shards) RETURNING shard, epoch;
END $$;
