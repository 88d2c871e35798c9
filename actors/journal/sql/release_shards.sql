SELECT release_shards($1, $2)
