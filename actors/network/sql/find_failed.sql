-- Messages that failed on the wire $1 hours to $2 seconds ago, from position ($3, $4) on, at most $5, oldest first.
SELECT s.id::text, s.failed_at, s.operation, s.request, s.stan, s.rrn, s.network_txn_id,
       p.request AS sale_request, p.stan AS sale_stan, p.rrn AS sale_rrn, p.network_txn_id AS sale_network_txn_id
FROM simulations s
LEFT JOIN simulations p ON p.id = s.parent_simulation_id
WHERE s.failed_at > now() - make_interval(hours => $1::int)
  AND s.failed_at <= now() - make_interval(secs => $2::float8)
  AND (s.failed_at, s.id) > ($3::timestamptz, $4::uuid)
  AND s.failed_at IS NOT NULL
  AND s.stan IS NOT NULL
  AND s.state = 'failed'
ORDER BY s.failed_at, s.id
LIMIT $5::int
