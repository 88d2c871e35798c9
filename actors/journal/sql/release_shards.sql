SELECT release_shards_v2($1, $2, $3)
