-- Inserts spends whose card is an active test card of their tenant. Returns the states of the cards that their tenant has.
WITH new AS (
    SELECT given.*, (
        -- A look-up by primary key for each row, in every plan; a join would compare each row with each card.
        SELECT c.state FROM cards c WHERE c.id = given.card_id AND c.tenant_id = given.tenant_id AND NOT c.live
    ) AS card_state
    FROM unnest(
        $1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[],
        $9::timestamptz[], $10::text[]
    ) AS given (id, tenant_id, card_id, request, stan, rrn, network_txn_id, accepted_at, failed_at, failure)
), inserted AS (
    INSERT INTO simulations (
        id, tenant_id, operation, state, card_id, request, stan, rrn, network_txn_id, accepted_at, failed_at, failure
    )
    SELECT
        id, tenant_id, 'spend', CASE WHEN failure IS NULL THEN 'accepted' ELSE 'failed' END, card_id, request, stan, rrn,
        network_txn_id, accepted_at, failed_at, failure
    FROM new
    WHERE card_state = 'active'
)
SELECT id::text AS id, card_state AS state FROM new WHERE card_state IS NOT NULL
