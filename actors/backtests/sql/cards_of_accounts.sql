SELECT c.account_id::text AS unit, c.id::text, c.card_product_id::text, coalesce(u.seq, 0) AS commands
FROM cards c LEFT JOIN card_usage u ON u.card_id = c.id WHERE c.account_id = ANY ($1::uuid[]) ORDER BY c.id
