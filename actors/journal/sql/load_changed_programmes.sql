SELECT m.position, p.id::text, p.config, p.seq, p.outage, p.decision_secret_sealed,
       ARRAY(SELECT r.rule FROM authorization_rules r WHERE r.programme_id = p.id AND r.scope_type <> 'card' AND r.state <> 'retired'
             ORDER BY r.created_at, r.id) AS rules
FROM (SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS position) m
LEFT JOIN (programme_changes c JOIN programmes p ON p.id = c.programme_id) ON c.txid >= $1::text::xid8
