-- commit_batch for one approval: what commit_batch_v3 does for a batch with one journal row, hold, transaction and row of events. The
-- values are parameters, because arrays and the statements of a function cost a third of such a commit, and each value is one parameter
-- only. The lock on the shard's row is the fence: a take waits for this commit, or this statement sees its epoch.
WITH fence AS (
    SELECT FROM shards WHERE shard = $2 AND epoch = $3 AND host = $1 FOR SHARE
), journaled AS (
    INSERT INTO journal_rows (
        actor_id, seq, epoch, command_key, fingerprint, kind, command, inputs, decision, reply, recorded_at, authorization_id
    ) VALUES ($4, $5, $3, $6, $7, 'authorize', $8, $9, $10, $11, $12, $26)
    RETURNING actor_id
), used AS (
    UPDATE card_usage
    SET seq = $5, day = $13, day_count = $14, day_amount_minor = $15, cvv2_failures = $16
    WHERE card_id = $4 AND seq = $17
    RETURNING card_id
), balanced AS (
    UPDATE accounts SET posted_minor = $19, held_minor = $20, version = $21
    WHERE id = $18 AND version = $22
    RETURNING id
), held AS (
    INSERT INTO holds (id, account_id, card_id, authorization_id, amount_minor, state, expires_at)
    VALUES ($23, $18, $4, $26, $24, 'held', $25)
), opened AS (
    -- The view transactions supplies all values that are left out.
    INSERT INTO transaction_rows (
        id, tenant_id, live, card_id, programme_id, seq, currency, requested_minor, created_at, network_txn_id, day, mcc, rrn
    ) VALUES ($26, $27, $28, $4, $29, $5, $30, $24, $12, $31, nullif($13, ($12 AT TIME ZONE 'UTC')::date::text), $32, $33)
), published AS (
    INSERT INTO event_rows (id, tenant_id, live, type, created_at) VALUES ($34, $27, $28, 'P', $12)
)
SELECT CASE
    WHEN NOT EXISTS (SELECT FROM fence) THEN refuse_commit('ST001')
    -- First: a command that is in the journal already is a duplicate, also if its card is behind.
    WHEN NOT EXISTS (SELECT FROM journaled)
        OR NOT EXISTS (SELECT FROM used) OR NOT EXISTS (SELECT FROM balanced) THEN refuse_commit('ST002')
END
