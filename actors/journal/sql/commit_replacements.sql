-- A batch that replaces cards: its rows, and the links between the cards, in one transaction.
WITH committed AS MATERIALIZED (
    SELECT commit_batch_v3($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24)
)
INSERT INTO card_replacements (card_id, replacement_id, reason, replaced_at)
SELECT link.card_id, link.replacement_id, link.reason, link.replaced_at
FROM committed CROSS JOIN unnest($25::replacement_row[]) AS link
