SELECT shard, epoch FROM shards WHERE shard = ANY ($1::smallint[])
