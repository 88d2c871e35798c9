SELECT m.position, p.id::text, p.config, p.seq, p.outage, p.decision_secret_sealed
FROM (SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS position) m
LEFT JOIN (programme_changes c JOIN programmes p ON p.id = c.programme_id) ON c.txid >= $1::text::xid8
