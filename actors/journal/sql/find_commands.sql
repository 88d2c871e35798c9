SELECT command_key, fingerprint, reply FROM journal WHERE command_key = ANY ($1::bytea[])
