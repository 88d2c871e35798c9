-- insert_active_spends for one spend. The values are parameters, because arrays cost as much as the row.
WITH card AS (
    SELECT state FROM cards WHERE id = $3::uuid AND tenant_id = $2::uuid AND NOT live
), inserted AS (
    INSERT INTO simulations (
        id, tenant_id, operation, state, card_id, request, stan, rrn, network_txn_id, accepted_at, failed_at, failure
    )
    SELECT
        $1::uuid, $2::uuid, 'spend', CASE WHEN $10::text IS NULL THEN 'accepted' ELSE 'failed' END, $3::uuid, $4::text,
        $5::text, $6::text, $7::text, $8::timestamptz, $9::timestamptz, $10::text
    FROM card
    WHERE card.state = 'active'
)
SELECT $1::uuid::text AS id, state FROM card
