-- The index has each key without its first byte.
SELECT command_key, fingerprint, reply FROM journal
WHERE substring(command_key FROM 2) = ANY (ARRAY(SELECT substring(key FROM 2) FROM unnest($1::bytea[]) AS keys (key)))
    AND command_key = ANY ($1::bytea[])
