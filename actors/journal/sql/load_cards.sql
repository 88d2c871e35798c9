SELECT c.id::text, c.tenant_id::text, c.live, c.programme_id::text, c.card_product_id::text, c.cardholder_id::text,
       c.account_id::text, c.network, c.currency, c.iin, c.last4, c.pan_ref, c.exp_month, c.exp_year, c.cvk_generation,
       c.state, c.controls, c.created_at AS created_ms, c.state_reason, c.cardholder_active,
       u.seq, u.day, u.day_count, u.day_amount_minor, u.cvv2_failures,
       old.card_id::text AS replaces, new.replacement_id::text AS replaced_by,
       d.balance_minor, d.consumed_minor, d.declared_at AS declared_ms,
       ARRAY(SELECT t.reference FROM tombstones t WHERE t.card_id = c.id AND t.recorded_at > retention.since
             ORDER BY t.recorded_at, t.reference) AS tombstones,
       ARRAY(SELECT (extract(epoch FROM t.recorded_at) * 1000)::bigint FROM tombstones t
             WHERE t.card_id = c.id AND t.recorded_at > retention.since ORDER BY t.recorded_at, t.reference) AS tombstones_ms, own.rules
FROM cards c JOIN card_usage u ON u.card_id = c.id LEFT JOIN declared_balances d ON d.card_id = c.id
LEFT JOIN card_replacements old ON old.replacement_id = c.id LEFT JOIN card_replacements new ON new.card_id = c.id
CROSS JOIN (SELECT now() - make_interval(days => $2::int) AS since) retention
CROSS JOIN LATERAL (
    SELECT ARRAY(SELECT r.rule FROM authorization_rules r WHERE r.scope_id = c.id AND r.scope_type = 'card' AND r.state <> 'retired'
                 ORDER BY r.created_at, r.id) AS rules
) own
WHERE c.id = ANY ($1::uuid[])
