SELECT key_digest, fingerprint, status, body
FROM idempotency
WHERE key_digest = ANY ($1::bytea[]) AND created_at > now() - interval '24 hours'
