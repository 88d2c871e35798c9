-- A commit with rows that few commits have: one transaction.
SELECT commit_batch_v3($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24),
       record_acts($25), record_replacements($26), record_rules($27), record_rule_matches($28), record_configurations($29)
