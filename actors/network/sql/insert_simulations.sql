INSERT INTO simulations (
    id, parent_simulation_id, tenant_id, operation, state, card_id, request, stan, rrn, network_txn_id, accepted_at,
    failed_at, failure
)
SELECT
    id, parent_simulation_id, tenant_id, operation, CASE WHEN failure IS NULL THEN 'accepted' ELSE 'failed' END,
    card_id, request, stan, rrn, network_txn_id, accepted_at, failed_at, failure
FROM unnest(
    $1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::uuid[], $6::text[], $7::text[], $8::text[], $9::text[],
    $10::timestamptz[], $11::timestamptz[], $12::text[]
) AS new (
    id, parent_simulation_id, tenant_id, operation, card_id, request, stan, rrn, network_txn_id, accepted_at,
    failed_at, failure
)
