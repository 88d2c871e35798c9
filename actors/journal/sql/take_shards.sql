SELECT taken_shard, new_epoch FROM take_shards($1, $2)
