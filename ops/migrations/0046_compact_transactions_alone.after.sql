-- Every process looks transactions up with their tenant or card, and commands and references by their short indexes. The release before
-- would scan whole tables.

SET LOCAL lock_timeout = '500ms';
-- In the order of commits, which therefore wait for this file and not in a circle with it.
LOCK TABLE journal_rows, holds, transaction_rows IN ACCESS EXCLUSIVE MODE;

ALTER TABLE transaction_rows DROP CONSTRAINT transactions_pkey;
ALTER TABLE transaction_rows ADD CONSTRAINT transactions_pkey PRIMARY KEY USING INDEX transactions_key;
DROP INDEX transactions_of_tenant, transactions_of_rrn, journal_command_key, holds_open, holds_due;
ALTER INDEX journal_command RENAME TO journal_command_key;

-- Only processes of release 0.1.0 wrote transactions without these columns; each statement of a commit paid for the condition.
DROP TRIGGER transaction_search_columns ON transaction_rows;
DROP FUNCTION transaction_search_columns;

-- As event_data(uuid, text), with the key of the transaction.
CREATE FUNCTION event_data(_event_id uuid, _type text, _tenant_id uuid, _live boolean)
RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    _bytes bytea := uuid_send(_event_id);
    _flip  int := CASE _type WHEN 'D' THEN 16 ELSE 17 END;
    _id    uuid := encode(set_byte(_bytes, 14, get_byte(_bytes, 14) # _flip), 'hex')::uuid;
    _row   record;
    _approved bigint;
    _held  bigint;
BEGIN
    SELECT t.card_id, t.programme_id, c.account_id, command_values(j.command) AS command, j.inputs::json AS inputs, decision_values(j.decision) AS decision,
           j.reply::json AS reply, j.recorded_at INTO _row
        FROM transaction_rows t JOIN journal_rows j ON j.actor_id = t.card_id AND j.seq = t.seq JOIN cards c ON c.id = t.card_id
        WHERE t.tenant_id = _tenant_id AND t.live = _live AND t.id = _id;
    _approved := (_row.reply ->> 2)::bigint;
    IF _type = 'D' THEN
        RETURN '{"authorization_id":"' || _id || '","card_id":"' || _row.card_id || '","programme_id":"' || _row.programme_id
            || '","amount":"' || minor_text((_row.command ->> 5)::bigint) || '","currency":' || (_row.command -> 6)::text
            || ',"decision":"' || CASE WHEN _row.reply -> 3 IS NULL THEN 'approved' ELSE 'declined' END
            || '","approved_amount":"' || minor_text(_approved) || '","decided_by":"'
            || decided_by(CASE json_typeof(_row.decision -> 4) WHEN 'string' THEN _row.decision ->> 4 END) || '","risk":{"score":'
            || (_row.decision -> 0)::text || ',"action":"' || coalesce(_row.decision ->> 1, 'allow')
            || '"},"hold_id":' || CASE WHEN _row.decision ->> 3 IS NULL THEN 'null' ELSE '"' || opening_hold(_id) || '"' END
            || ',"network_txn_id":' || (_row.command -> 4)::text || coalesce(',"decline_reason":' || (_row.reply -> 3)::text, '') || '}';
    END IF;
    _held := (_row.inputs ->> 7)::bigint + _approved;
    RETURN '{"hold_id":"' || opening_hold(_id) || '","account_id":"' || _row.account_id || '","authorization_id":"' || _id || '","card_id":"'
        || _row.card_id || '","amount":"' || minor_text(_approved) || '","asset":' || (_row.command -> 6)::text
        || ',"held":"' || minor_text(_held) || '","available":"' || minor_text((_row.inputs ->> 6)::bigint - _held)
        || '","expires_at":"' || to_char((_row.recorded_at AT TIME ZONE 'UTC') + (_row.decision ->> 3)::int * interval '1 day',
                                         'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
        || '","occurred_at":"' || to_char(_row.recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '"}';
END $$;

CREATE OR REPLACE VIEW events AS
    SELECT e.id, r.tenant_id, r.live,
           CASE e.code WHEN 'D' THEN 'authorization.decided' WHEN 'H' THEN 'ledger.hold.created' ELSE e.code END AS type,
           r.created_at, coalesce(r.data, event_data(e.id, e.code, r.tenant_id, r.live)) AS data, r.txid, r.id AS row_id
    FROM event_rows r CROSS JOIN LATERAL (
        SELECT r.id AS id, CASE r.type WHEN 'P' THEN 'D' ELSE r.type END AS code
        UNION ALL SELECT other_of_pair(r.id), 'H' WHERE r.type = 'P'
    ) e;
DROP FUNCTION event_data(uuid, text);
