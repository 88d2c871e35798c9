UPDATE backtest_ranges SET cards_done = $4::integer, lease_until = now() + $5::integer * interval '1 second'
WHERE backtest_id = $1::text::uuid AND number = $2::integer AND attempt = $3::integer AND state = 'running'
    AND EXISTS (SELECT FROM backtests b WHERE b.id = backtest_id AND b.state = 'running')
RETURNING 1
