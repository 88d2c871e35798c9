INSERT INTO stan_blocks AS b (acquirer_id, next_stan)
VALUES ($1, $2)
ON CONFLICT (acquirer_id) DO UPDATE SET next_stan = b.next_stan + $2
RETURNING next_stan - $2 AS first
