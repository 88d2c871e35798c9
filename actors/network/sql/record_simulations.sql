WITH recorded AS (
    UPDATE simulations s
    SET state = new.state,
        sent_at = coalesce(new.sent_at, s.sent_at),
        decided_at = new.decided_at,
        failed_at = coalesce(new.failed_at, s.failed_at),
        failure = CASE WHEN new.state = 'decided' THEN NULL ELSE new.failure END,
        response_code = new.response_code,
        approval_code = new.approval_code,
        approved_minor = new.approved_minor,
        authorization_id = new.authorization_id
    FROM unnest(
        $1::uuid[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::text[],
        $7::text[], $8::text[], $9::bigint[], $10::uuid[], $11::uuid[], $12::bigint[]
    ) AS new (
        id, state, sent_at, decided_at, failed_at, failure,
        response_code, approval_code, approved_minor, authorization_id, sale_id, added_minor
    )
    -- The second condition on the id makes every plan use the primary key. A decided row is final, so its
    -- amount is added to the sale once.
    WHERE s.id = new.id AND s.id = ANY ($1::uuid[]) AND s.state <> 'decided'
    RETURNING new.sale_id, new.added_minor
)
INSERT INTO clearing_schedule AS sale (simulation_id, open_minor, due_at)
SELECT sale_id, sum(added_minor), CASE WHEN $13::int > 0 THEN now() + make_interval(secs => $13::int) END
FROM recorded
WHERE sale_id IS NOT NULL
GROUP BY sale_id
ORDER BY sale_id
ON CONFLICT (simulation_id) DO UPDATE
SET open_minor = sale.open_minor + excluded.open_minor, due_at = excluded.due_at
