CREATE OR REPLACE FUNCTION renew_shards_v2(_host text, _shards smallint[], _epochs bigint[])
RETURNS TABLE (renewed_shard smallint, current_epoch bigint, renewed boolean)
LANGUAGE plpgsql AS $$
-- Raises the epochs of the shards that _host owns, if each still has its epoch in _epochs. Otherwise an earlier renewal of this host has
-- run: the epochs stay, renewed is false, and the host calls again with the returned epochs. Raises ST001 if another host owns a shard.
DECLARE
    _found bigint;
BEGIN
    PERFORM 1 FROM shards WHERE shard = ANY (_shards) ORDER BY shard FOR UPDATE;
    PERFORM 1 FROM hosts WHERE incarnation = _host FOR UPDATE;
    SELECT count(*) INTO _found FROM shards WHERE shard = ANY (_shards) AND host = _host;
    IF _found <> cardinality(_shards) THEN
        RAISE EXCEPTION 'stale epoch' USING ERRCODE = 'ST001';
    END IF;
    SELECT count(*) INTO _found FROM unnest(_shards, _epochs) AS known (shard, epoch) JOIN shards USING (shard, epoch);
    IF _found <> cardinality(_shards) THEN
        RETURN QUERY SELECT shard, epoch, false FROM shards WHERE shard = ANY (_shards);
        RETURN;
    END IF;
    RETURN QUERY UPDATE shards SET epoch = epoch + 1 WHERE shard = ANY (_shards) RETURNING shard, epoch, true;
END $$;
