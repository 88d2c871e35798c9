UPDATE backtest_ranges SET state = 'done', cards_done = cards, lease_until = NULL, result = $4::text
WHERE backtest_id = $1::text::uuid AND number = $2::integer AND attempt = $3::integer AND state = 'running'
    AND EXISTS (SELECT FROM backtests b WHERE b.id = backtest_id AND b.state = 'running')
RETURNING 1
