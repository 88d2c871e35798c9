SELECT id::text, tenant_id::text, live, programme_id::text, currency, posted_minor, held_minor, version
FROM accounts
WHERE id = ANY ($1::uuid[]) AND kind = 'card'
