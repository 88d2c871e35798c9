SELECT s.operation, s.request, s.stan, s.rrn, s.network_txn_id,
       p.request AS sale_request, p.stan AS sale_stan, p.rrn AS sale_rrn, p.network_txn_id AS sale_network_txn_id
FROM simulations s
LEFT JOIN simulations p ON p.id = s.parent_simulation_id
WHERE s.operation IN ('reversal', 'clearing')
  AND s.accepted_at > now() - make_interval(hours => $1::int)
  AND s.state IN ('accepted', 'sent')
ORDER BY s.accepted_at
