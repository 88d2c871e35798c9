SELECT command, round(date_part('epoch', recorded_at) * 1000)::bigint AS at_ms
FROM journal WHERE actor_id = $1::text::uuid AND kind NOT IN ('grant_stand_ins', 'end_outage') ORDER BY seq
