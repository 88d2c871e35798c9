-- A sale whose hold has lapsed leaves the schedule: it is presented only on request.
WITH due AS (
    SELECT simulation_id
    FROM clearing_schedule
    WHERE due_at <= now()
    ORDER BY due_at
    LIMIT $1::int
    FOR UPDATE SKIP LOCKED
), checked AS (
    SELECT due.simulation_id,
           coalesce(h.state = 'lapsed' OR (h.state = 'held' AND h.expires_at <= now()), false) AS lapsed
    FROM due
    JOIN simulations s ON s.id = due.simulation_id
    LEFT JOIN transactions t ON t.tenant_id = s.tenant_id AND t.live = false AND t.id = s.authorization_id
    LEFT JOIN holds h ON h.id = t.hold_id
), claimed AS (
    UPDATE clearing_schedule sale
    SET due_at = CASE WHEN NOT checked.lapsed THEN now() + make_interval(secs => $2::int) END
    FROM checked
    WHERE sale.simulation_id = checked.simulation_id
    RETURNING sale.simulation_id, checked.lapsed
)
SELECT s.request, s.stan, s.rrn, s.network_txn_id
FROM claimed
JOIN simulations s ON s.id = claimed.simulation_id
WHERE NOT claimed.lapsed
