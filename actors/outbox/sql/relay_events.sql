SELECT relayed, delivery_ids::text[], endpoint_ids::text[], lag_seconds FROM relay_events($1::int)
