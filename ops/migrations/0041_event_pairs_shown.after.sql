-- A row with the type P is two events: authorization.decided with the id of the row, and ledger.hold.created with other_of_pair() of it.
-- Hosts write such rows from their next connection on (actors/journal/sql/shows_pairs.sql). The release before would miss the second event.

SET LOCAL lock_timeout = '500ms';

CREATE OR REPLACE VIEW events AS
    SELECT e.id, r.tenant_id, r.live,
           CASE e.code WHEN 'D' THEN 'authorization.decided' WHEN 'H' THEN 'ledger.hold.created' ELSE e.code END AS type,
           r.created_at, coalesce(r.data, event_data(e.id, e.code)) AS data, r.txid, r.id AS row_id
    FROM event_rows r CROSS JOIN LATERAL (
        SELECT r.id AS id, CASE r.type WHEN 'P' THEN 'D' ELSE r.type END AS code
        UNION ALL SELECT other_of_pair(r.id), 'H' WHERE r.type = 'P'
    ) e;
