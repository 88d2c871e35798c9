CREATE OR REPLACE FUNCTION release_shards_v2(_host text, _shards smallint[], _epochs bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
-- Releases those of _shards that _host still owns with their epoch in _epochs. Other shards stay as they are.
BEGIN
    -- In the lock order of take_shards_v2: no deadlocks.
    PERFORM 1 FROM shards WHERE shard = ANY (_shards) ORDER BY shard FOR UPDATE;
    UPDATE shards SET epoch = shards.epoch + 1, host = NULL
        FROM unnest(_shards, _epochs) AS known (shard, epoch)
        WHERE shards.shard = known.shard AND shards.epoch = known.epoch AND shards.host = _host;
END $$;
