-- Which programmes have changed lately: hosts keep snapshots of programmes and look for missed changes every second.

CREATE TABLE programme_changes (
    programme_id uuid PRIMARY KEY,
    txid         xid8 NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX programme_changes_in_order ON programme_changes (txid);
COMMENT ON TABLE programme_changes IS 'The last transaction that wrote each programme; programmes written before this table existed are missing.';

CREATE FUNCTION note_programme_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO programme_changes VALUES (NEW.id, pg_current_xact_id())
    ON CONFLICT (programme_id) DO UPDATE SET txid = EXCLUDED.txid;
    RETURN NULL;
END $$;

CREATE TRIGGER note_programme_change AFTER INSERT OR UPDATE ON programmes
    FOR EACH ROW EXECUTE FUNCTION note_programme_change();
