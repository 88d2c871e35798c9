CREATE OR REPLACE FUNCTION record_acts(_acts act_row[]) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO audit_log (
        id, tenant_id, live, recorded_at, actor_kind, actor, act, object_kind, object_id, before, after, request_id
    ) SELECT
        id, tenant_id, live, recorded_at, actor_kind, actor, act, object_kind, object_id, before, after, request_id
    FROM unnest(_acts)
$$;
