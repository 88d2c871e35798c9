-- Lists of authorization rules, and reports of their matches.

CREATE INDEX authorization_rules_of_state ON authorization_rules (tenant_id, live, state, id);
CREATE INDEX authorization_rules_of_type ON authorization_rules (tenant_id, live, scope_type, id);

-- A report reads one range of this index and no row of the table.
CREATE INDEX rule_matches_reported ON rule_matches (rule_id, decided_at)
    INCLUDE (version, shadow, day, decided, amount_minor, mcc, country, authorization_id);
DROP INDEX rule_matches_in_order;
