-- Compact rows of decisions by programmes and in stand-in (engine/decision/compact_delegated.py): what this release needs to read them. It
-- writes such rows after the next file. Rows without the added values give the same texts as before.

SET LOCAL lock_timeout = '500ms';

CREATE FUNCTION decided_by(_decider text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN _decider IS NULL THEN 'platform' WHEN _decider = 'programme' THEN _decider ELSE 'stand_in' END
$$;
COMMENT ON FUNCTION decided_by IS 'The party that decided. A compact decision names the programme, or the rule of its stand-in.';

-- Triggers and rules by their number: TRIGGERS and STAND_IN_RULES, engine/decision/compact_delegated.py.
CREATE FUNCTION stand_in_trigger(_number int) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ('{connection_error,timeout,invalid_response}'::text[])[1 + _number]
$$;
CREATE FUNCTION stand_in_rule(_number int) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ('{not_triggered,mode_disabled,mode_decline_all,max_amount_not_set,max_total_exposure_not_set,currency_mismatch,mcc_not_permitted,declared_balance_missing,max_amount_exceeded,declared_balance_exceeded,max_total_exposure_exceeded,budget_unreachable,within_ceilings}'::text[])[1 + _number]
$$;

CREATE FUNCTION full_result(_result json) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN _result IS NULL OR json_typeof(_result) = 'null' THEN 'null'
        WHEN json_typeof(_result -> 0) = 'string'
            THEN '[' || (_result -> 0)::text || ',' || coalesce((_result -> 1)::text, 'null') || ',null,null]'
        ELSE '[null,null,"' || stand_in_trigger((_result ->> 0)::int) || '",' || CASE
            WHEN _result -> 1 IS NULL THEN 'null'
            ELSE '{"rule":"' || stand_in_rule((_result ->> 1)::int) || '"'
                || coalesce(',"outage_id":' || nullif((_result -> 2)::text, 'null'), '')
                || coalesce(',"used_minor":' || nullif((_result -> 3)::text, '0'), '')
                || coalesce(',"limit_minor":' || nullif((_result -> 4)::text, 'null'), '') || '}'
        END || ']'
    END
$$;
COMMENT ON FUNCTION full_result IS 'The JSON of the result of a call to a programme: see full_result in engine/decision/compact_delegated.py.';

CREATE FUNCTION full_stand_in(_decider text, _result json, _approved json) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN _decider IS NULL OR _decider = 'programme' THEN ''
        ELSE ',"stand_in":{"rule":"' || _decider || '","trigger":"' || stand_in_trigger((_result ->> 0)::int)
            || '","outage_id":' || coalesce((_result -> 2)::text, 'null') || ',"exposure_minor":' || _approved::text
            || ',"used_minor":' || coalesce((_result -> 3)::text, '0')
            || ',"limit_minor":' || coalesce((_result -> 4)::text, 'null') || '}'
    END
$$;
COMMENT ON FUNCTION full_stand_in IS 'The stand-in of a compact decision: see full_stand_in in engine/decision/compact_delegated.py.';

CREATE OR REPLACE FUNCTION decision_values(_decision text) RETURNS json LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(_decision
        , chr(18), '],[72,"approved","approved"]]')
        , chr(17), '[27,0,90],32,[74,"timeout","approved"],[78,"within_ceilings","within_ceilings"],[81,')
        , chr(16), '[0,null,null,7,"programme",-1,[3,true,"20')
        , chr(15), '[0,null,null,7,"within_ceilings",-1,[3,true,"20')
        , chr(14), '[27,0,90],[30,')
        , chr(7), '[24,"USD","USD"],')
        , chr(6), '[24,"GBP","GBP"],')
        , chr(5), '[24,"EUR","EUR"],')
        , chr(4), ',17,23,')
        , chr(3), '"],12,6,-10,')
        , chr(2), '"],12,6,-10,17,23,')
        , chr(1), '[0,null,null,7,-1,[3,true,"20')::json
$$;

CREATE OR REPLACE FUNCTION full_inputs(_inputs text, _seq bigint, _recorded_at timestamptz)
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
        || '",' || full_result(_v -> 8) || ',' || coalesce((_v -> 9)::text, 'null') || ',1,false,null]';
END $$;

CREATE OR REPLACE FUNCTION full_decision(_decision text, _inputs text, _reply text, _recorded_at timestamptz)
RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    _v      json := decision_values(_decision);
    _a      json := _reply;
    _day    text := coalesce(nullif((_v -> 2)::text, 'null'), (_inputs::json -> 1)::text);
    -- The decider, if the platform did not decide. No step of a trace is a string.
    _by     text := CASE json_typeof(_v -> 4) WHEN 'string' THEN _v ->> 4 END;
    -- Names and outcomes of rules by their number: three outcomes of each name in RULE_NAMES, engine/decision/compact.py.
    _rules  CONSTANT text[] := '{card_state,card_expiry,cardholder,programme,expiry,cvv2,cvv1,authentication,currency,risk,funds,amount,address,chip_data,pin,per_txn_cap,per_day_cap,per_day_amount_cap,mcc_allow,mcc_deny,channel_allow,channel_deny,country_allow,country_deny,programme_decision,approved_amount,stand_in,stand_in_budget}';
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
    INTO _trace FROM json_array_elements(_v) WITH ORDINALITY AS steps (step, number) WHERE number > 4 AND json_typeof(step) <> 'string';
    RETURN '{"decision":"' || CASE WHEN _a -> 3 IS NULL THEN 'approved' ELSE 'declined' END
        || '","reason":' || coalesce((_a -> 3)::text, 'null') || ',"response_code":' || (_a -> 0)::text
        || ',"approval_code":' || (_a -> 1)::text || ',"approved_minor":' || (_a -> 2)::text
        || ',"decided_by":"' || decided_by(_by) || '","risk_score":' || (_v -> 0)::text || ',"risk_action":"' || coalesce(_v ->> 1, 'allow')
        || '","day":' || _day || ',"hold_expires_ms":'
        || coalesce((floor(extract(epoch FROM _recorded_at) * 1000)::bigint + (_v ->> 3)::bigint * 86400000)::text, 'null')
        || ',"trace":[' || coalesce(_trace, '') || ']' || full_stand_in(_by, _inputs::json -> 8, _a -> 2) || '}';
END $$;

-- As before, with the party that decided.
CREATE OR REPLACE FUNCTION event_data(_event_id uuid, _type text) RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
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
            || '","approved_amount":"' || minor_text(_approved) || '","decided_by":"'
            || decided_by(CASE json_typeof(_row.decision -> 4) WHEN 'string' THEN _row.decision ->> 4 END) || '","risk":{"score":'
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
