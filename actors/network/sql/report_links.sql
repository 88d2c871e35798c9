-- The states of all links of the edge $1; reports of edges that have ended are deleted after a day.
WITH ended AS (
    DELETE FROM link_reports WHERE edge <> $1 AND reported_at < now() - interval '1 day'
)
INSERT INTO link_reports (edge, name, live, status, reported_at)
SELECT $1, r.name, r.live, r.status::jsonb, now()
FROM unnest($2::text[], $3::boolean[], $4::text[]) AS r (name, live, status)
ON CONFLICT (edge, name) DO UPDATE
SET live = excluded.live, status = excluded.status, reported_at = excluded.reported_at
