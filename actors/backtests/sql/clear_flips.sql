DELETE FROM backtest_flips WHERE backtest_id = $1::text::uuid AND number = $2::integer AND attempt < $3::integer
