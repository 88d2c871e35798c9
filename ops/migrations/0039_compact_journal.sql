-- Compact rows. The tables journal and events become journal_rows and event_rows; views of their names show every row in full, as the
-- release before wrote it. Processes of that release read the views and write through the commit functions or the triggers below.
--
-- The functions read layout 1 (engine/decision/compact.py) and give the exact original JSON. They never change: stored rows are read for
-- ever. Texts in full begin with { (command, decision, reply) or with [2 (inputs), compact texts with [.

-- Commits wait behind these locks, and these wait behind every reader. Beside a long one (export, audit, dump) the migration gives up
-- after half a second and is repeated.
SET LOCAL lock_timeout = '500ms';
LOCK TABLE journal, events IN ACCESS EXCLUSIVE MODE;

ALTER TABLE journal RENAME TO journal_rows;
ALTER TABLE events RENAME TO event_rows;
ALTER TABLE event_rows ALTER COLUMN data DROP NOT NULL;
COMMENT ON TABLE journal_rows IS 'Every command that had an effect: seq is gap-free for each card or programme; a command key is executed once. The view journal shows all texts in full.';
COMMENT ON TABLE event_rows IS 'The outbox and the event log: a row is written in the transaction of its cause. The view events shows the data of every event.';
COMMENT ON COLUMN event_rows.type IS 'The type, or its code if data is null: see the view events.';
COMMENT ON COLUMN event_rows.data IS 'The exact JSON that receivers get; null if event_data() makes it from the journal.';
-- Rows of holds change once, and never in place: their state is in the conditions of two indexes.
ALTER TABLE holds SET (fillfactor = 100);
ALTER TABLE transactions SET (fillfactor = 90);

CREATE TABLE decision_configurations (
    digest      text PRIMARY KEY,
    card        text NOT NULL,
    programme   text NOT NULL,
    decisioning text NOT NULL
);
COMMENT ON TABLE decision_configurations IS 'The rarely changing part of the inputs of decisions, by the digest of its content. Compact inputs name a row; rows never change.';
CREATE TRIGGER decision_configurations_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON decision_configurations
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TYPE configuration_row AS (digest text, card text, programme text, decisioning text);

-- Compact texts with their frequent parts put back: control characters stand for these.
CREATE FUNCTION command_values(_command text) RETURNS json LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(_command
        , chr(21), '","')
        , chr(20), ',null,')
        , chr(19), ',"USD","')
        , chr(18), ',"GBP","')
        , chr(17), ',"EUR","')
        , chr(16), '","pos","')
        , chr(15), '","ecommerce","')
        , chr(14), ',"authentication":"valid"')
        , chr(7), ',"chip":"valid","chip_tags":["')
        , chr(6), ',"pin":"valid"')
        , chr(5), ',"cvv1":"match"')
        , chr(4), ',"cvv2":"match"')
        , chr(3), ',{"expiry":"match"')
        , chr(2), ',null,{"expiry":"match","cvv2":"match"}]')
        , chr(1), ',null,{"expiry":"match","cvv2":"missing"}]')::json
$$;
CREATE FUNCTION decision_values(_decision text) RETURNS json LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT replace(replace(replace(replace(replace(replace(replace(replace(_decision
        , chr(14), '[27,0,90],[30,')
        , chr(7), '[24,"USD","USD"],')
        , chr(6), '[24,"GBP","GBP"],')
        , chr(5), '[24,"EUR","EUR"],')
        , chr(4), ',17,23,')
        , chr(3), '"],12,6,-10,')
        , chr(2), '"],12,6,-10,17,23,')
        , chr(1), '[0,null,null,7,-1,[3,true,"20')::json
$$;

CREATE FUNCTION full_command(_command text, _actor_id uuid, _command_key bytea, _fingerprint bytea, _authorization_id uuid)
RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    _v json := command_values(_command);
BEGIN
    RETURN '{"command":"authorize","id":"' || _authorization_id || '","command_key":"' || encode(_command_key, 'base64')
        || '","card_id":"' || _actor_id || '","fingerprint":"' || encode(_fingerprint, 'base64')
        || '","wire":{"acquirer_id":' || (_v -> 0)::text || ',"stan":' || (_v -> 1)::text || ',"transmitted_at":' || (_v -> 2)::text
        || ',"rrn":' || (_v -> 3)::text || coalesce(',"network_txn_id":' || nullif((_v -> 4)::text, 'null'), '')
        || '},"amount_minor":' || (_v -> 5)::text || ',"currency":' || (_v -> 6)::text || ',"mcc":' || (_v -> 7)::text
        || ',"merchant_name":' || (_v -> 8)::text || ',"merchant_country":' || (_v -> 9)::text || ',"channel":' || (_v -> 10)::text
        || coalesce(',"merchant_id":' || nullif((_v -> 11)::text, 'null'), '')
        || coalesce(',"entry_mode":' || nullif((_v -> 12)::text, 'null'), '')
        || CASE (_v -> 13)::text WHEN '{}' THEN '}' ELSE ',' || substr((_v -> 13)::text, 2) END;
END $$;
COMMENT ON FUNCTION full_command IS 'The JSON of a compact command: see RULE_NAMES and compacted in engine/decision/compact.py.';

-- A missing configuration gives a text that no release can decode: the decision cannot be replayed, and the audit reports it.
CREATE FUNCTION full_inputs(_inputs text, _seq bigint, _recorded_at timestamptz)
RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    _v     json := _inputs;
    _found decision_configurations;
BEGIN
    SELECT * INTO _found FROM decision_configurations WHERE digest = _v ->> 0;
    IF _found.digest IS NULL THEN
        RETURN '{"missing_configuration":' || (_v -> 0)::text || '}';
    END IF;
    RETURN '[2,' || floor(extract(epoch FROM _recorded_at) * 1000)::bigint || ',' || _seq - 1 || ',' || _found.card || ','
        || (_v -> 1)::text || ',' || (_v -> 2)::text || ',' || (_v -> 3)::text || ',' || (_v -> 4)::text || ',' || _found.programme || ','
        || (_v -> 5)::text || ',' || (_v -> 6)::text || ',' || (_v -> 7)::text || ',[],null,"' || _found.decisioning
        || '",null,null,1,false,null]';
END $$;

CREATE FUNCTION full_decision(_decision text, _inputs text, _reply text, _recorded_at timestamptz)
RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    _v      json := decision_values(_decision);
    _a      json := _reply;
    _day    text := coalesce(nullif((_v -> 2)::text, 'null'), (_inputs::json -> 1)::text);
    -- Names and outcomes of rules by their number: three outcomes of each name in RULE_NAMES, engine/decision/compact.py.
    _rules  CONSTANT text[] := '{card_state,card_expiry,cardholder,programme,expiry,cvv2,cvv1,authentication,currency,risk,funds,amount,address,chip_data,pin,per_txn_cap,per_day_cap,per_day_amount_cap,mcc_allow,mcc_deny,channel_allow,channel_deny,country_allow,country_deny,programme_decision,approved_amount}';
    _ends   CONSTANT text[] := '{pass,fail,skip}';
    _trace  text;
BEGIN
    SELECT string_agg(
        CASE
            WHEN json_typeof(step) = 'array' THEN
                '["' || _rules[1 + (step ->> 0)::int / 3] || '","' || _ends[1 + (step ->> 0)::int % 3] || '",'
                || CASE (step -> 1)::text WHEN 'true' THEN _day ELSE (step -> 1)::text END
                || ',' || coalesce((step -> 2)::text, 'null') || ']'
            WHEN step::text LIKE '-%' THEN
                '["' || _rules[1 + (-1 - step::text::int) / 3] || '","' || _ends[1 + (-1 - step::text::int) % 3] || '","active","active"]'
            ELSE '["' || _rules[1 + step::text::int / 3] || '","' || _ends[1 + step::text::int % 3] || '",null,null]'
        END, ',' ORDER BY number)
    INTO _trace FROM json_array_elements(_v) WITH ORDINALITY AS steps (step, number) WHERE number > 4;
    RETURN '{"decision":"' || CASE WHEN _a -> 3 IS NULL THEN 'approved' ELSE 'declined' END
        || '","reason":' || coalesce((_a -> 3)::text, 'null') || ',"response_code":' || (_a -> 0)::text
        || ',"approval_code":' || (_a -> 1)::text || ',"approved_minor":' || (_a -> 2)::text
        || ',"decided_by":"platform","risk_score":' || (_v -> 0)::text || ',"risk_action":"' || coalesce(_v ->> 1, 'allow')
        || '","day":' || _day || ',"hold_expires_ms":'
        || coalesce((floor(extract(epoch FROM _recorded_at) * 1000)::bigint + (_v ->> 3)::bigint * 86400000)::text, 'null')
        || ',"trace":[' || coalesce(_trace, '') || ']}';
END $$;

CREATE FUNCTION full_reply(_reply text, _authorization_id uuid)
RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    _a json := _reply;
BEGIN
    RETURN '{"reply":"answer","response_code":' || (_a -> 0)::text || ',"authorization_id":"' || _authorization_id || '"'
        || coalesce(',"approval_code":' || nullif((_a -> 1)::text, 'null'), '')
        || coalesce(',"approved_minor":' || nullif((_a -> 2)::text, '0'), '')
        || coalesce(',"reason":' || (_a -> 3)::text, '') || '}';
END $$;

CREATE VIEW journal AS
    SELECT actor_id, seq, epoch, command_key, fingerprint, kind,
           CASE WHEN command LIKE '[%' THEN full_command(command, actor_id, command_key, fingerprint, authorization_id) ELSE command END
               AS command,
           CASE WHEN command LIKE '[%' THEN full_inputs(inputs, seq, recorded_at) ELSE inputs END AS inputs,
           CASE WHEN command LIKE '[%' THEN full_decision(decision, inputs, reply, recorded_at) ELSE decision END AS decision,
           CASE WHEN command LIKE '[%' THEN full_reply(reply, authorization_id) ELSE reply END AS reply,
           recorded_at, authorization_id
    FROM journal_rows;
COMMENT ON VIEW journal IS 'The rows of journal_rows with all texts in full.';

CREATE FUNCTION minor_text(_minor bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN _minor < 0 THEN '-' ELSE '' END || abs(_minor) / 100 || '.' || lpad((abs(_minor) % 100)::text, 2, '0')
$$;

-- The data of authorization.decided (code D) and ledger.hold.created (code H) of a compact journal row. The ids of a command's events are its own id with
-- 0x10 and 0x11 flipped in the byte before the shard, that of its hold with 0x01 (engine.ids).
CREATE FUNCTION event_data(_event_id uuid, _type text) RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    _bytes bytea := uuid_send(_event_id);
    _flip  int := CASE _type WHEN 'D' THEN 16 ELSE 17 END;
    _id    uuid := encode(set_byte(_bytes, 14, get_byte(_bytes, 14) # _flip), 'hex')::uuid;
    _hold  uuid := encode(set_byte(_bytes, 14, get_byte(_bytes, 14) # _flip # 1), 'hex')::uuid;
    _row   record;
    _approved bigint;
    _held  bigint;
BEGIN
    SELECT t.card_id, t.programme_id, c.account_id, command_values(j.command) AS command, j.inputs::json AS inputs, decision_values(j.decision) AS decision,
           j.reply::json AS reply, j.recorded_at INTO _row
        FROM transactions t JOIN journal_rows j ON j.actor_id = t.card_id AND j.seq = t.seq JOIN cards c ON c.id = t.card_id
        WHERE t.id = _id;
    _approved := (_row.reply ->> 2)::bigint;
    IF _type = 'D' THEN
        RETURN '{"authorization_id":"' || _id || '","card_id":"' || _row.card_id || '","programme_id":"' || _row.programme_id
            || '","amount":"' || minor_text((_row.command ->> 5)::bigint) || '","currency":' || (_row.command -> 6)::text
            || ',"decision":"' || CASE WHEN _row.reply -> 3 IS NULL THEN 'approved' ELSE 'declined' END
            || '","approved_amount":"' || minor_text(_approved) || '","decided_by":"platform","risk":{"score":'
            || (_row.decision -> 0)::text || ',"action":"' || coalesce(_row.decision ->> 1, 'allow')
            || '"},"hold_id":' || CASE WHEN _row.decision ->> 3 IS NULL THEN 'null' ELSE '"' || _hold || '"' END
            || ',"network_txn_id":' || (_row.command -> 4)::text || coalesce(',"decline_reason":' || (_row.reply -> 3)::text, '') || '}';
    END IF;
    _held := (_row.inputs ->> 7)::bigint + _approved;
    RETURN '{"hold_id":"' || _hold || '","account_id":"' || _row.account_id || '","authorization_id":"' || _id || '","card_id":"'
        || _row.card_id || '","amount":"' || minor_text(_approved) || '","asset":' || (_row.command -> 6)::text
        || ',"held":"' || minor_text(_held) || '","available":"' || minor_text((_row.inputs ->> 6)::bigint - _held)
        || '","expires_at":"' || to_char((_row.recorded_at AT TIME ZONE 'UTC') + (_row.decision ->> 3)::int * interval '1 day',
                                         'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
        || '","occurred_at":"' || to_char(_row.recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '"}';
END $$;

CREATE VIEW events AS
    SELECT id, tenant_id, live,
           CASE type WHEN 'D' THEN 'authorization.decided' WHEN 'H' THEN 'ledger.hold.created' ELSE type END AS type,
           created_at, coalesce(data, event_data(id, type)) AS data, txid
    FROM event_rows;
COMMENT ON VIEW events IS 'The rows of event_rows, each with its data: the exact JSON that receivers get.';

-- Statements that processes of the release before still send.
CREATE FUNCTION insert_journal_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO journal_rows (
        actor_id, seq, epoch, command_key, fingerprint, kind, command, inputs, decision, reply, recorded_at, authorization_id
    ) VALUES (
        NEW.actor_id, NEW.seq, NEW.epoch, NEW.command_key, NEW.fingerprint, NEW.kind, NEW.command, NEW.inputs, NEW.decision, NEW.reply,
        NEW.recorded_at, NEW.authorization_id
    );
    RETURN NEW;
END $$;
CREATE TRIGGER journal_insert INSTEAD OF INSERT ON journal FOR EACH ROW EXECUTE FUNCTION insert_journal_row();
CREATE FUNCTION insert_event_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO event_rows (id, tenant_id, live, type, created_at, data)
        VALUES (NEW.id, NEW.tenant_id, NEW.live, NEW.type, NEW.created_at, NEW.data);
    RETURN NEW;
END $$;
CREATE TRIGGER events_insert INSTEAD OF INSERT ON events FOR EACH ROW EXECUTE FUNCTION insert_event_row();

-- Processes of the release before use the views at once, with the rights that they have on the tables.
DO $$
DECLARE
    _right record;
BEGIN
    FOR _right IN
        SELECT v.name, a.privilege_type AS privilege, quote_ident(pg_get_userbyid(a.grantee)) AS role
        FROM (VALUES ('journal', 'journal_rows'), ('decision_configurations', 'journal_rows'), ('events', 'event_rows')) AS v (name, source)
        JOIN pg_class c ON c.oid = v.source::regclass CROSS JOIN LATERAL aclexplode(c.relacl) a
        WHERE a.grantee NOT IN (0, c.relowner) AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
    LOOP
        EXECUTE format('GRANT %s ON %I TO %s', _right.privilege, _right.name, _right.role);
    END LOOP;
END $$;
