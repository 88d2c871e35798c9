SELECT p.card_id::text AS card_id, p.sealed, c.exp_year, c.exp_month
FROM pans p
JOIN cards c ON c.id = p.card_id
WHERE p.card_id = ANY ($1::uuid[])
