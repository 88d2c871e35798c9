SELECT p.id::text, p.config, p.seq, p.outage, p.decision_secret_sealed,
       ARRAY(SELECT r.rule FROM authorization_rules r WHERE r.programme_id = p.id AND r.scope_type <> 'card' AND r.state <> 'retired'
             ORDER BY r.created_at, r.id) AS rules
FROM programmes p WHERE p.id = ANY ($1::uuid[])
