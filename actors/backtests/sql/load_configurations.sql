-- Configurations that compact rows name.
SELECT digest, card, programme, decisioning FROM decision_configurations WHERE digest = ANY ($1::text[])
