SELECT taken_shard, new_epoch FROM take_shards_v2($1, $2, $3)
