-- The age of rule matches: those that are too old are deleted in small steps.

CREATE INDEX rule_matches_age ON rule_matches (decided_at);
