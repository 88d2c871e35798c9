-- Rules after their changes, in the order of the changes: a rule that was changed twice in one commit appears twice.
CREATE OR REPLACE FUNCTION record_rules(_rules rule_row[]) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO authorization_rule_versions (rule_id, version, rule, created_at)
    SELECT id, version, rule, updated_at FROM unnest(_rules)
    ON CONFLICT (rule_id, version) DO NOTHING;
    INSERT INTO authorization_rules (id, tenant_id, live, programme_id, scope_type, scope_id, name, state, version, rule, created_at,
                                     updated_at)
    SELECT DISTINCT ON (id) id, tenant_id, live, programme_id, scope_type, scope_id, name, state, version, rule, created_at, updated_at
    FROM unnest(_rules) WITH ORDINALITY AS changed ORDER BY id, ordinality DESC
    ON CONFLICT (id) DO UPDATE SET scope_id = EXCLUDED.scope_id, name = EXCLUDED.name, state = EXCLUDED.state,
        version = EXCLUDED.version, rule = EXCLUDED.rule, updated_at = EXCLUDED.updated_at;
$$;
