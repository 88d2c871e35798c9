SELECT renewed_shard, new_epoch FROM renew_shards($1, $2)
