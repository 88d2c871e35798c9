SELECT p.card_id::text AS card_id, p.sealed, c.exp_year, c.exp_month, c.cvk_generation
FROM pans p
JOIN cards c ON c.id = p.card_id
WHERE p.card_id = ANY ($1::uuid[])
