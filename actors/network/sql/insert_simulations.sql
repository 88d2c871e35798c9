INSERT INTO simulations (
    id, tenant_id, operation, state, card_id, request, stan, rrn, network_txn_id, accepted_at, failed_at, failure
)
SELECT
    id, tenant_id, 'spend', CASE WHEN failure IS NULL THEN 'accepted' ELSE 'failed' END,
    card_id, request, stan, rrn, network_txn_id, accepted_at, failed_at, failure
FROM unnest(
    $1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[],
    $8::timestamptz[], $9::timestamptz[], $10::text[]
) AS new (id, tenant_id, card_id, request, stan, rrn, network_txn_id, accepted_at, failed_at, failure)
