CREATE OR REPLACE FUNCTION take_shards_v2(_host text, _shards smallint[], _epochs bigint[])
RETURNS TABLE (taken_shard smallint, new_epoch bigint)
LANGUAGE plpgsql AS $$
-- Makes _host the owner of _shards and raises their epochs, if each shard still has its epoch in _epochs. Raises ST002 otherwise.
DECLARE
    _found bigint;
BEGIN
    -- The shards' rows first: concurrent takes queue there. Then the owners' rows: a running commit ends before the epoch rises.
    PERFORM 1 FROM shards WHERE shard = ANY (_shards) ORDER BY shard FOR UPDATE;
    SELECT count(*) INTO _found FROM unnest(_shards, _epochs) AS known (shard, epoch) JOIN shards USING (shard, epoch);
    IF _found <> cardinality(_shards) THEN
        RAISE EXCEPTION 'epoch behind' USING ERRCODE = 'ST002';
    END IF;
    PERFORM 1 FROM hosts WHERE incarnation IN (SELECT host FROM shards WHERE shard = ANY (_shards))
        ORDER BY incarnation FOR UPDATE;
    RETURN QUERY UPDATE shards SET epoch = epoch + 1, host = _host WHERE shard = ANY (_shards) RETURNING shard, epoch;
END $$;
