-- Deletes rule matches older than $1 days, at most $2.
-- $3 is the time on the process's clock: a row must be too old by both clocks.
WITH oldest AS MATERIALIZED (
    SELECT rule_id, decision_id FROM rule_matches
    WHERE decided_at < least(now(), $3::timestamptz) - make_interval(days => $1::int) ORDER BY decided_at LIMIT $2::int
), deleted AS (
    DELETE FROM rule_matches m USING oldest o WHERE (m.rule_id, m.decision_id) = (o.rule_id, o.decision_id) RETURNING 1
)
SELECT count(*)::int AS deleted FROM deleted
