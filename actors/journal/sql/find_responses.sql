-- $2 is the time on the host's clock. A key expires by both clocks.
SELECT key_digest, fingerprint, status, body
FROM idempotency
WHERE key_digest = ANY ($1::bytea[]) AND created_at > least(now(), $2::timestamptz) - interval '24 hours'
