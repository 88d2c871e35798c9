WITH due AS (
    SELECT simulation_id
    FROM clearing_schedule
    WHERE due_at <= now()
    ORDER BY due_at
    LIMIT $1::int
    FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE clearing_schedule sale
    SET due_at = now() + make_interval(secs => $2::int)
    FROM due
    WHERE sale.simulation_id = due.simulation_id
    RETURNING sale.simulation_id
)
SELECT s.request, s.stan, s.rrn, s.network_txn_id
FROM claimed
JOIN simulations s ON s.id = claimed.simulation_id
