UPDATE backtest_ranges SET state = 'running', attempt = attempt + 1, cards_done = 0,
    lease_until = now() + $2::integer * interval '1 second'
WHERE (backtest_id, number) = (
    SELECT r.backtest_id, r.number FROM backtest_ranges r JOIN backtests b ON b.id = r.backtest_id AND b.state = 'running'
    WHERE r.backtest_id = $1::text::uuid AND r.attempt < $3::integer
        AND (r.state = 'queued' OR (r.state = 'running' AND r.lease_until < now()))
    ORDER BY r.number LIMIT 1 FOR UPDATE OF r SKIP LOCKED
)
RETURNING number, attempt, first_card::text, last_card::text, cards
