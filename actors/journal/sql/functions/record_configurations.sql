-- Configurations of decisions that the host does not know to be durable. In the order of their digests: no deadlocks between hosts.
CREATE OR REPLACE FUNCTION record_configurations(_configurations configuration_row[]) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO decision_configurations (digest, card, programme, decisioning)
    SELECT digest, card, programme, decisioning FROM unnest(_configurations) ORDER BY digest
    ON CONFLICT (digest) DO NOTHING
$$;
