SELECT programme_id::text AS programme_id, sealed, previous_sealed, changed_at
FROM authentication_keys
WHERE changed_at > $1
ORDER BY changed_at
