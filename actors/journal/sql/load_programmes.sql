SELECT id::text, config, seq, outage, decision_secret_sealed FROM programmes WHERE id = ANY ($1::uuid[])
