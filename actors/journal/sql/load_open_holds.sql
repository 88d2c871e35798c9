SELECT id::text, account_id::text, card_id::text, authorization_id::text, amount_minor, expires_at AS expires_ms
FROM holds
WHERE account_id = ANY ($1::uuid[]) AND state = 'held'
