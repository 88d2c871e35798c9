CREATE OR REPLACE FUNCTION record_replacements(_replacements replacement_row[]) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO card_replacements (card_id, replacement_id, reason, replaced_at)
    SELECT card_id, replacement_id, reason, replaced_at FROM unnest(_replacements)
$$;
