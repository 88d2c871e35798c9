SELECT p.digest, p.card_id::text AS card_id, c.exp_year, c.exp_month, c.cvk_generation, c.live,
       c.programme_id::text AS programme_id
FROM pans p
JOIN cards c ON c.id = p.card_id
WHERE p.digest = ANY ($1::bytea[])
