SELECT renewed_shard, current_epoch, renewed FROM renew_shards_v2($1, $2, $3)
