SELECT id::text, parent_simulation_id::text, request, stan, rrn, network_txn_id, failure
FROM simulations
WHERE id = ANY ($1::uuid[])
