SELECT id::text, config, seq FROM programmes WHERE id = ANY ($1::uuid[])
