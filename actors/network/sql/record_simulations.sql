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
    $7::text[], $8::text[], $9::bigint[], $10::uuid[]
) AS new (
    id, state, sent_at, decided_at, failed_at, failure,
    response_code, approval_code, approved_minor, authorization_id
)
-- What is decided stays as it is.
WHERE s.id = new.id AND s.state <> 'decided'
