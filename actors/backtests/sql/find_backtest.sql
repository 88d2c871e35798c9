SELECT b.programme_id::text, b.plan, round(date_part('epoch', least(b.started_at, b.to_at)) * 1000)::bigint AS until_ms,
    greatest(0, $2::double precision - date_part('epoch', now() - least(b.started_at, b.to_at))) AS settled_in,
    EXISTS (
        SELECT FROM authorization_rules r JOIN authorization_rule_versions v ON v.rule_id = r.id
        WHERE r.programme_id = b.programme_id AND r.scope_type = 'card' AND v.rule ~ '"velocity"|"first_at_merchant"'
    ) AS card_velocities,
    (SELECT count(*) FROM backtest_flips f WHERE f.backtest_id = b.id) AS flips
FROM backtests b WHERE b.id = $1::text::uuid AND b.state = 'running'
