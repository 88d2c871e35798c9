-- Cards without an account, with all cards that they replace and that replace them.
WITH RECURSIVE chains (unit, id) AS (
    SELECT id, id FROM unnest($1::uuid[]) AS id
    UNION
    SELECT c.unit, r.id FROM chains c CROSS JOIN LATERAL (
        SELECT replacement_id AS id FROM card_replacements WHERE card_id = c.id
        UNION ALL SELECT card_id FROM card_replacements WHERE replacement_id = c.id) r
)
SELECT h.unit::text, h.id::text, c.card_product_id::text, coalesce(u.seq, 0) AS commands
FROM chains h JOIN cards c ON c.id = h.id LEFT JOIN card_usage u ON u.card_id = h.id ORDER BY h.id
