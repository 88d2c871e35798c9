SELECT account_id::text AS unit, id::text, card_product_id::text FROM cards WHERE account_id = ANY ($1::uuid[]) ORDER BY id
