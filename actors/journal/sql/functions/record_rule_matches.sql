CREATE OR REPLACE FUNCTION record_rule_matches(_matches rule_match_row[]) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO rule_matches (rule_id, decision_id, version, shadow, authorization_id, card_id, day, decided, amount_minor, currency,
                              mcc, country, decided_at)
    SELECT rule_id, decision_id, version, shadow, authorization_id, card_id, day, decided, amount_minor, currency, mcc, country,
           decided_at
    FROM unnest(_matches)
$$;
