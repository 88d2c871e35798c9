WITH fenced AS (
    SELECT b.id, b.tenant_id, b.live, r.number, r.attempt FROM backtest_ranges r JOIN backtests b ON b.id = r.backtest_id
    WHERE r.backtest_id = $1::text::uuid AND r.number = $2::integer AND r.attempt = $3::integer AND r.state = 'running'
        AND b.state = 'running'
    FOR SHARE OF r
)
INSERT INTO backtest_flips (
    id, backtest_id, number, attempt, tenant_id, live, authorization_id, card_id, decided_at, operation, direction, rule, amount_minor,
    currency, mcc, before, after
)
SELECT f.id, b.id, b.number, b.attempt, b.tenant_id, b.live, f.authorization_id, f.card_id, to_timestamp(f.at_ms / 1000.0), f.operation,
    f.direction, f.rule, f.amount_minor, f.currency, f.mcc, f.before, f.after
FROM fenced b CROSS JOIN unnest(
    $4::uuid[], $5::uuid[], $6::uuid[], $7::bigint[], $8::text[], $9::text[], $10::text[], $11::bigint[], $12::text[], $13::text[],
    $14::text[], $15::text[]
) AS f (id, authorization_id, card_id, at_ms, operation, direction, rule, amount_minor, currency, mcc, before, after)
RETURNING 1
