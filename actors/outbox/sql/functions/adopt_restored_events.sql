CREATE OR REPLACE FUNCTION adopt_restored_events() RETURNS bigint LANGUAGE plpgsql AS $$
-- A restored dump carries transaction ids of another server. If they are higher than this server's, no event would be relayed until this
-- server reached them. Restored events get this transaction's id, or 0 if they were relayed before the dump; the relay's position is set
-- back. Returns the number of changed events.
DECLARE
    _position relay_progress;
    _adopted  bigint;
BEGIN
    SELECT * INTO _position FROM relay_progress WHERE lane = 'events' FOR UPDATE;
    -- The id of a visible transaction is below the snapshot's xmax.
    IF _position.txid <= pg_snapshot_xmax(pg_current_snapshot()) THEN
        UPDATE event_rows SET txid = pg_current_xact_id() WHERE txid >= pg_snapshot_xmax(pg_current_snapshot());
        GET DIAGNOSTICS _adopted = ROW_COUNT;
        RETURN _adopted;
    END IF;
    UPDATE event_rows
        -- Of two events in one row, the second may not have been relayed.
        SET txid = CASE WHEN txid < _position.txid OR (txid = _position.txid AND _position.event_id
                >= CASE type WHEN 'P' THEN greatest(id, other_of_pair(id)) ELSE id END)
            THEN '0' ELSE pg_current_xact_id() END
        -- xmin holds the low 32 bits of the id of the transaction that wrote the row on this server.
        WHERE xmin::text::numeric <> txid::text::numeric % 4294967296;
    GET DIAGNOSTICS _adopted = ROW_COUNT;
    UPDATE relay_progress SET txid = '1', event_id = NULL WHERE lane = 'events';
    RETURN _adopted;
END $$;
