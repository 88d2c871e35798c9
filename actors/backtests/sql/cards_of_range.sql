-- $2 limits the cards to those of a product; the range of one card begins and ends with it.
SELECT id::text, account_id::text FROM cards
WHERE programme_id = $1::text::uuid AND ($2::text IS NULL OR card_product_id = $2::text::uuid)
    AND id >= $3::text::uuid AND id <= $4::text::uuid
ORDER BY id
