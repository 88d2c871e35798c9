-- Replies of owners to the commands with these keys.
SELECT command_key, reply FROM journal WHERE command_key = ANY ($1::bytea[])
