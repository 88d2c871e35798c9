SELECT DISTINCT due.card_id::text AS card_id FROM (
    SELECT card_id FROM holds
    WHERE state = 'held' AND expires_at <= now() AND get_byte(uuid_send(card_id), 15) = ANY ($1::int[])
    ORDER BY expires_at LIMIT $2
) due
