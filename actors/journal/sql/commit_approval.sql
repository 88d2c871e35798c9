-- commit_batch for one approval: what commit_batch_v3 does for a batch with one journal row, hold, transaction and row of events. The
-- values are parameters, because arrays and the statements of a function cost a third of such a commit. The lock on the shard's row is
-- the fence: a take waits for this commit, or this statement sees its epoch.
WITH fence AS (
    SELECT FROM shards WHERE shard = $2 AND epoch = $3 AND host = $1 FOR SHARE
), journaled AS (
    INSERT INTO journal_rows (
        actor_id, seq, epoch, command_key, fingerprint, kind, command, inputs, decision, reply, recorded_at, authorization_id
    ) VALUES ($4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
    RETURNING actor_id
), used AS (
    UPDATE card_usage
    SET seq = $17, day = $18, day_count = $19, day_amount_minor = $20, cvv2_failures = $21
    WHERE card_id = $16 AND seq = $22
    RETURNING card_id
), balanced AS (
    UPDATE accounts SET posted_minor = $24, held_minor = $25, version = $26
    WHERE id = $23 AND version = $27
    RETURNING id
), held AS (
    INSERT INTO holds (id, account_id, card_id, authorization_id, amount_minor, state, expires_at)
    VALUES ($28, $29, $30, $31, $32, $33, $34)
), opened AS (
    -- As commit_batch_v3 does: nulls for the values that the view transactions supplies.
    INSERT INTO transaction_rows (
        id, tenant_id, live, card_id, programme_id, seq, kind, status, hold_id, currency, requested_minor, approved_minor, held_minor,
        cleared_minor, reversed_minor, decline_reason, created_at, updated_at, network_txn_id, day, remainder_minor, closed, mcc, rrn
    ) SELECT
        id, tenant_id, live, card_id, programme_id, seq, CASE WHEN kind <> 'purchase' OR hold_id IS NULL THEN kind END,
        nullif(status, 'pending'), CASE WHEN kind <> 'purchase' OR hold_id <> opening_hold(id) THEN hold_id END, currency,
        requested_minor, nullif(approved_minor, requested_minor), nullif(held_minor, requested_minor), nullif(cleared_minor, 0),
        nullif(reversed_minor, 0), decline_reason, created_at, nullif(updated_at, created_at), network_txn_id,
        nullif(day, (created_at AT TIME ZONE 'UTC')::date::text), nullif(remainder_minor, requested_minor), closed, mcc, rrn
    FROM (VALUES (
        $35::uuid, $36::uuid, $37::boolean, $38::uuid, $39::uuid, $40::uuid, $41::bigint, $42::text, $43::text, $44::uuid, $45::text,
        $46::bigint, $47::bigint, $48::bigint, $49::bigint, $50::bigint, $51::text, $52::timestamptz, $53::timestamptz, $54::text,
        $55::text, $56::bigint, $57::text, $58::text, $59::text
    )) AS n (
        id, tenant_id, live, card_id, cardholder_id, programme_id, seq, kind, status, hold_id, currency, requested_minor,
        approved_minor, held_minor, cleared_minor, reversed_minor, decline_reason, created_at, updated_at, network_txn_id, day,
        remainder_minor, closed, mcc, rrn
    )
), published AS (
    INSERT INTO event_rows (id, tenant_id, live, type, created_at, data)
    VALUES ($60, $61, $62, $63, $64, $65)
)
SELECT CASE
    WHEN NOT EXISTS (SELECT FROM fence) THEN refuse_commit('ST001')
    -- First: a command that is in the journal already is a duplicate, also if its card is behind.
    WHEN NOT EXISTS (SELECT FROM journaled)
        OR NOT EXISTS (SELECT FROM used) OR NOT EXISTS (SELECT FROM balanced) THEN refuse_commit('ST002')
END
