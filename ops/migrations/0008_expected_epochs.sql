-- Taking, renewing and releasing shards by compare-and-set: a statement whose caller has given up can still run later on the server, and
-- must then change nothing. The functions without a number stay for processes of the release before.

CREATE FUNCTION take_shards_v2(_host text, _shards smallint[], _epochs bigint[])
RETURNS TABLE (taken_shard smallint, new_epoch bigint)
LANGUAGE plpgsql AS $$
-- Takes all of _shards if each still has its epoch of _epochs; otherwise ST002, and nothing has changed.
DECLARE
    _found bigint;
BEGIN
    -- First the shards, so that takers queue; then their owners' rows, so that a commit under way ends before the epoch rises.
    PERFORM 1 FROM shards WHERE shard = ANY (_shards) ORDER BY shard FOR UPDATE;
    SELECT count(*) INTO _found FROM unnest(_shards, _epochs) AS known (shard, epoch) JOIN shards USING (shard, epoch);
    IF _found <> cardinality(_shards) THEN
        RAISE EXCEPTION 'epoch behind' USING ERRCODE = 'ST002';
    END IF;
    PERFORM 1 FROM hosts WHERE incarnation IN (SELECT host FROM shards WHERE shard = ANY (_shards))
        ORDER BY incarnation FOR UPDATE;
    RETURN QUERY UPDATE shards SET epoch = epoch + 1, host = _host WHERE shard = ANY (_shards) RETURNING shard, epoch;
END $$;

CREATE FUNCTION renew_shards_v2(_host text, _shards smallint[], _epochs bigint[])
RETURNS TABLE (renewed_shard smallint, current_epoch bigint, renewed boolean)
LANGUAGE plpgsql AS $$
-- Raises the epochs of _shards if each still has its epoch of _epochs. Otherwise an earlier renewal of this host has run: nothing
-- changes, renewed is false, and the host asks again with the epochs that are returned. ST001 when another host owns one of the shards.
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

CREATE FUNCTION release_shards_v2(_host text, _shards smallint[], _epochs bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
-- Releases those of _shards that _host still owns under their epoch of _epochs.
BEGIN
    -- In one order with takers, so that none of them deadlocks.
    PERFORM 1 FROM shards WHERE shard = ANY (_shards) ORDER BY shard FOR UPDATE;
    UPDATE shards SET epoch = shards.epoch + 1, host = NULL
        FROM unnest(_shards, _epochs) AS known (shard, epoch)
        WHERE shards.shard = known.shard AND shards.epoch = known.epoch AND shards.host = _host;
END $$;
