-- Rows of event_rows for two events: what this release needs to read them. It writes such rows after the next file.

-- Commits do not wait for this lock: they name the tables.
SET LOCAL lock_timeout = '500ms';

CREATE FUNCTION other_of_pair(_event_id uuid) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT encode(set_byte(uuid_send(_event_id), 14, get_byte(uuid_send(_event_id), 14) # 1), 'hex')::uuid
$$;
COMMENT ON FUNCTION other_of_pair IS 'The id of the second event of a command from that of its first, and the reverse (engine.ids).';

CREATE FUNCTION event_rows_of(_event_ids uuid[]) RETURNS uuid[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT _event_ids || ARRAY(SELECT other_of_pair(id) FROM unnest(_event_ids) AS named (id))
$$;
COMMENT ON FUNCTION event_rows_of IS 'The values of row_id that these events can have in the view events.';

CREATE OR REPLACE VIEW events AS
    SELECT id, tenant_id, live,
           CASE type WHEN 'D' THEN 'authorization.decided' WHEN 'H' THEN 'ledger.hold.created' ELSE type END AS type,
           created_at, coalesce(data, event_data(id, type)) AS data, txid, id AS row_id
    FROM event_rows;
COMMENT ON COLUMN events.row_id IS 'The id of the row that holds the event: its own id or, of the second event of a pair, the id of the first. Indexes have this id.';
