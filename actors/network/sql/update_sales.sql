UPDATE clearing_schedule sale
SET open_minor = new.open_minor,
    presentments = new.presentments,
    due_at = CASE
        WHEN new.open_minor = 0 OR new.schedule = 'stop' THEN NULL
        WHEN new.schedule = 'keep' THEN sale.due_at
        WHEN $5::int > 0 THEN now() + make_interval(secs => $5::int)
    END
FROM unnest($1::uuid[], $2::bigint[], $3::int[], $4::text[]) AS new (id, open_minor, presentments, schedule)
WHERE sale.simulation_id = new.id
