SELECT shard, host FROM shards
