-- The rival inside the database: the rules of engine/decision/rules.py that apply to the benchmark's spends, in PL/pgSQL, and the
-- same rows. bench_authorize_all decides a batch in one call; bench_decide decides one spend and writes nothing. Programmes and
-- controls are columns, not JSON. The functions support purchases for a fixed amount, at most one control of each kind, and cards
-- that share no account.

CREATE TABLE bench_programmes (
    id             uuid PRIMARY KEY,
    version        bigint  NOT NULL,
    status         text    NOT NULL,
    timezone       text    NOT NULL,
    hold_days      integer NOT NULL,
    delegated      boolean NOT NULL,
    policy         text    NOT NULL,
    on_timeout     boolean NOT NULL,
    max_minor      bigint,
    budget_minor   bigint,
    budget_currency text,
    mccs           text[]  NOT NULL,
    mccs_allowed   boolean NOT NULL,
    outage_id      uuid,
    used_minor     bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE bench_rules (
    card_id            uuid PRIMARY KEY,
    mcc_allow          text[],
    mcc_deny           text[],
    country_allow      text[],
    country_deny       text[],
    channel_allow      text[],
    channel_deny       text[],
    per_txn_cap        bigint,
    per_day_cap        bigint,
    per_day_amount_cap bigint
);

CREATE TYPE bench_spend AS (
    place          integer,
    id             uuid,
    card_id        uuid,
    command_key    bytea,
    command        text,
    amount_minor   bigint,
    currency       text,
    mcc            text,
    country        text,
    channel        text,
    risk           integer,
    hold_days      integer,
    approval_code  text,
    network_txn_id text,
    stan           text,
    rrn            text,
    hold_id        uuid,
    decided_id     uuid,
    placed_id      uuid,
    stand_in_id    uuid,
    outage_id      uuid
);

CREATE TYPE bench_card AS (
    id                uuid,
    tenant_id         uuid,
    live              boolean,
    programme_id      uuid,
    cardholder_id     uuid,
    account_id        uuid,
    network           text,
    currency          text,
    exp_year          integer,
    exp_month         integer,
    state             text,
    controls          text,
    cardholder_active boolean,
    seq               bigint,
    day               text,
    day_count         bigint,
    day_amount_minor  bigint,
    cvv2_failures     integer,
    posted_minor      bigint,
    held_minor        bigint,
    version           bigint,
    declared_minor    bigint,
    consumed_minor    bigint,
    mcc_allow         text[],
    mcc_deny          text[],
    country_allow     text[],
    country_deny      text[],
    channel_allow     text[],
    channel_deny      text[],
    per_txn_cap       bigint,
    per_day_cap       bigint,
    per_day_amount_cap bigint
);

-- The decision on one spend, and the texts of its rows.
CREATE TYPE bench_verdict AS (
    reason          text,
    response_code   text,
    approved_minor  bigint,
    day             text,
    at              timestamptz,
    expires_at      timestamptz,
    rule            text,
    outage_id       uuid,
    used_minor      bigint,
    inputs          text,
    decision        text,
    reply           text,
    decided         text,
    placed          text
);

CREATE TYPE bench_answer AS (place integer, response_code text, approved_minor bigint);

-- One spend of a batch with the columns of all its rows. Flat, because reading fields of nested rows is slow in PL/pgSQL.
CREATE TYPE bench_outcome AS (
    place           integer,
    id              uuid,
    card_id         uuid,
    command_key     bytea,
    command         text,
    amount_minor    bigint,
    currency        text,
    mcc             text,
    network_txn_id  text,
    stan            text,
    rrn             text,
    hold_id         uuid,
    decided_id      uuid,
    placed_id       uuid,
    stand_in_id     uuid,
    tenant_id       uuid,
    live            boolean,
    programme_id    uuid,
    cardholder_id   uuid,
    account_id      uuid,
    seq             bigint,
    usage_day       text,
    day_count       bigint,
    day_amount_minor bigint,
    cvv2_failures   integer,
    account_held_minor bigint,
    version         bigint,
    consumed_minor  bigint,
    reason          text,
    response_code   text,
    approved_minor  bigint,
    day             text,
    at              timestamptz,
    expires_at      timestamptz,
    rule            text,
    outage_id       uuid,
    used_minor      bigint,
    inputs          text,
    decision        text,
    reply           text,
    decided         text,
    placed          text,
    budget_minor    bigint,
    last_of_card    boolean
);

CREATE FUNCTION bench_money(minor bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN minor < 0 THEN '-' ELSE '' END || (abs(minor) / 100)::text || '.' || lpad((abs(minor) % 100)::text, 2, '0')
$$;

CREATE FUNCTION bench_instant(at_ms bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT timestamptz '1970-01-01 00:00:00+00' + at_ms * interval '1 millisecond'
$$;

CREATE FUNCTION bench_instant_text(at timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

CREATE FUNCTION bench_response_code(reason text, rule text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN rule IN ('max_amount_exceeded', 'max_total_exposure_exceeded') THEN '61'
        WHEN rule = 'declared_balance_exceeded' THEN '51'
        ELSE CASE reason
            WHEN 'card_lost' THEN '41' WHEN 'card_stolen' THEN '43' WHEN 'card_terminated' THEN '46'
            WHEN 'card_unactivated' THEN '78' WHEN 'card_suspended' THEN '62' WHEN 'card_expired' THEN '54'
            WHEN 'cardholder_blocked' THEN '57' WHEN 'programme_inactive' THEN '57' WHEN 'currency_not_supported' THEN '12'
            WHEN 'mcc_not_allowed' THEN '57' WHEN 'country_not_allowed' THEN '62' WHEN 'channel_not_allowed' THEN '57'
            WHEN 'per_txn_cap_exceeded' THEN '61' WHEN 'per_day_count_exceeded' THEN '65'
            WHEN 'per_day_amount_exceeded' THEN '61' WHEN 'risk_blocked' THEN '59' WHEN 'insufficient_funds' THEN '51'
            ELSE '05' END
    END
$$;

CREATE FUNCTION bench_stand_in_rule(s bench_spend, p bench_programmes, remaining_minor bigint) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p.policy = 'disabled' THEN RETURN 'mode_disabled'; END IF;
    IF p.policy = 'decline_all' THEN RETURN 'mode_decline_all'; END IF;
    IF p.max_minor IS NULL THEN RETURN 'max_amount_not_set'; END IF;
    IF p.budget_minor IS NULL THEN RETURN 'max_total_exposure_not_set'; END IF;
    IF s.currency <> p.budget_currency THEN RETURN 'currency_mismatch'; END IF;
    IF (s.mcc = ANY (p.mccs)) <> p.mccs_allowed THEN RETURN 'mcc_not_permitted'; END IF;
    IF remaining_minor IS NULL THEN RETURN 'declared_balance_missing'; END IF;
    IF s.amount_minor > p.max_minor THEN RETURN 'max_amount_exceeded'; END IF;
    IF s.amount_minor > remaining_minor THEN RETURN 'declared_balance_exceeded'; END IF;
    IF p.used_minor + s.amount_minor > p.budget_minor THEN RETURN 'max_total_exposure_exceeded'; END IF;
    RETURN 'within_ceilings';
END $$;

CREATE FUNCTION bench_decide(s bench_spend, c bench_card, p bench_programmes, now_ms bigint) RETURNS bench_verdict
LANGUAGE plpgsql STABLE AS $$
-- The rules in the engine's order. The first that fails gives the reason and ends the trace.
DECLARE
    v bench_verdict;
    t text;
    today text;
    count_before bigint := 0;
    amount_before bigint := 0;
    expiry text := lpad(c.exp_year::text, 4, '0') || '-' || lpad(c.exp_month::text, 2, '0');
    remaining_minor bigint;
    stands_in boolean := false;
    expires_ms bigint;
    endpoint_result text := 'null';
    shown_budget text := coalesce(p.budget_minor::text, 'null');
    risk_action text := CASE WHEN s.risk >= 90 THEN 'block' WHEN s.risk >= 50 THEN 'review' ELSE 'allow' END;
BEGIN
    v.at := bench_instant(now_ms);
    today := to_char(v.at AT TIME ZONE p.timezone, 'YYYY-MM-DD');
    v.day := greatest(c.day, today);
    IF v.day = c.day THEN
        count_before := c.day_count;
        amount_before := c.day_amount_minor;
    END IF;
    v.approved_minor := 0;
    v.used_minor := p.used_minor;
    v.outage_id := p.outage_id;
    IF c.declared_minor IS NOT NULL THEN
        remaining_minor := greatest(0, c.declared_minor - c.consumed_minor);
    END IF;
    IF p.delegated THEN
        -- The stand-in rule is computed first. It counts only if every other rule passes.
        v.rule := CASE WHEN p.on_timeout THEN bench_stand_in_rule(s, p, remaining_minor) ELSE 'not_triggered' END;
        stands_in := p.on_timeout;
        IF stands_in THEN
            v.outage_id := coalesce(p.outage_id, s.outage_id);
            IF v.rule = 'within_ceilings' THEN
                v.used_minor := p.used_minor + s.amount_minor;
            END IF;
            endpoint_result := '[null,null,"timeout",{"rule":"' || v.rule || '","outage_id":"' || v.outage_id || '"'
                || CASE WHEN v.used_minor > 0 THEN ',"used_minor":' || v.used_minor ELSE '' END
                || CASE WHEN p.budget_minor IS NULL THEN '' ELSE ',"limit_minor":' || p.budget_minor END || '}]';
        ELSE
            endpoint_result := '[null,null,"timeout",{"rule":"not_triggered"}]';
        END IF;
    END IF;

    <<rules>>
    BEGIN
        t := '["card_state","' || CASE WHEN c.state = 'active' THEN 'pass' ELSE 'fail' END || '","' || c.state || '","active"]';
        IF c.state <> 'active' THEN v.reason := 'card_' || c.state; EXIT rules; END IF;
        IF left(v.day, 7) > expiry THEN
            t := t || ',["card_expiry","fail","' || v.day || '","' || expiry || '"]';
            v.reason := 'card_expired'; EXIT rules;
        END IF;
        t := t || ',["card_expiry","pass","' || v.day || '","' || expiry || '"]';
        IF NOT c.cardholder_active THEN
            t := t || ',["cardholder","fail",null,null]';
            v.reason := 'cardholder_blocked'; EXIT rules;
        END IF;
        t := t || ',["cardholder","pass",null,null]';
        IF p.status <> 'active' THEN
            t := t || ',["programme","fail","' || p.status || '","active"]';
            v.reason := 'programme_inactive'; EXIT rules;
        END IF;
        t := t || ',["programme","pass","active","active"],["cvv2","skip",null,null],["authentication","skip",null,null]';
        IF s.currency <> c.currency THEN
            t := t || ',["currency","fail","' || s.currency || '","' || c.currency || '"]';
            v.reason := 'currency_not_supported'; EXIT rules;
        END IF;
        t := t || ',["currency","pass","' || s.currency || '","' || c.currency || '"]';
        IF c.controls <> '[]' THEN
            IF c.mcc_allow IS NOT NULL THEN
                IF NOT s.mcc = ANY (c.mcc_allow) THEN
                    t := t || ',["mcc_allow","fail","' || s.mcc || '",null]'; v.reason := 'mcc_not_allowed'; EXIT rules;
                END IF;
                t := t || ',["mcc_allow","pass","' || s.mcc || '",null]';
            END IF;
            IF c.mcc_deny IS NOT NULL THEN
                IF s.mcc = ANY (c.mcc_deny) THEN
                    t := t || ',["mcc_deny","fail","' || s.mcc || '",null]'; v.reason := 'mcc_not_allowed'; EXIT rules;
                END IF;
                t := t || ',["mcc_deny","pass","' || s.mcc || '",null]';
            END IF;
            IF c.country_allow IS NOT NULL THEN
                IF NOT s.country = ANY (c.country_allow) THEN
                    t := t || ',["country_allow","fail","' || s.country || '",null]'; v.reason := 'country_not_allowed'; EXIT rules;
                END IF;
                t := t || ',["country_allow","pass","' || s.country || '",null]';
            END IF;
            IF c.country_deny IS NOT NULL THEN
                IF s.country = ANY (c.country_deny) THEN
                    t := t || ',["country_deny","fail","' || s.country || '",null]'; v.reason := 'country_not_allowed'; EXIT rules;
                END IF;
                t := t || ',["country_deny","pass","' || s.country || '",null]';
            END IF;
            IF c.channel_allow IS NOT NULL THEN
                IF NOT s.channel = ANY (c.channel_allow) THEN
                    t := t || ',["channel_allow","fail","' || s.channel || '",null]'; v.reason := 'channel_not_allowed'; EXIT rules;
                END IF;
                t := t || ',["channel_allow","pass","' || s.channel || '",null]';
            END IF;
            IF c.channel_deny IS NOT NULL THEN
                IF s.channel = ANY (c.channel_deny) THEN
                    t := t || ',["channel_deny","fail","' || s.channel || '",null]'; v.reason := 'channel_not_allowed'; EXIT rules;
                END IF;
                t := t || ',["channel_deny","pass","' || s.channel || '",null]';
            END IF;
            IF c.per_txn_cap IS NOT NULL THEN
                IF s.amount_minor > c.per_txn_cap THEN
                    t := t || ',["per_txn_cap","fail",' || s.amount_minor || ',' || c.per_txn_cap || ']';
                    v.reason := 'per_txn_cap_exceeded'; EXIT rules;
                END IF;
                t := t || ',["per_txn_cap","pass",' || s.amount_minor || ',' || c.per_txn_cap || ']';
            END IF;
            IF c.per_day_cap IS NOT NULL THEN
                IF count_before >= c.per_day_cap THEN
                    t := t || ',["per_day_cap","fail",' || count_before || ',' || c.per_day_cap || ']';
                    v.reason := 'per_day_count_exceeded'; EXIT rules;
                END IF;
                t := t || ',["per_day_cap","pass",' || count_before || ',' || c.per_day_cap || ']';
            END IF;
            IF c.per_day_amount_cap IS NOT NULL THEN
                IF amount_before + s.amount_minor > c.per_day_amount_cap THEN
                    t := t || ',["per_day_amount_cap","fail",' || amount_before || ',' || c.per_day_amount_cap || ']';
                    v.reason := 'per_day_amount_exceeded'; EXIT rules;
                END IF;
                t := t || ',["per_day_amount_cap","pass",' || amount_before || ',' || c.per_day_amount_cap || ']';
            END IF;
        END IF;
        IF s.risk >= 90 THEN
            t := t || ',["risk","fail",' || s.risk || ',90]';
            v.reason := 'risk_blocked'; EXIT rules;
        END IF;
        t := t || ',["risk","pass",' || s.risk || ',90]';
        IF s.amount_minor > c.posted_minor - c.held_minor THEN
            -- Also for delegated programmes: their endpoint is called only if the card's funds cover the amount.
            t := t || ',["funds","fail",' || c.posted_minor - c.held_minor || ',' || s.amount_minor || ']';
            v.reason := 'insufficient_funds'; EXIT rules;
        ELSIF stands_in THEN
            t := t || ',["funds","skip",null,null]';
        ELSE
            t := t || ',["funds","pass",' || c.posted_minor - c.held_minor || ',' || s.amount_minor || ']';
        END IF;
        IF p.delegated AND NOT stands_in THEN
            t := t || ',["programme_decision","fail","timeout","approved"]';
            v.reason := 'programme_declined'; EXIT rules;
        END IF;
        IF stands_in THEN
            t := t || ',["programme_decision","skip","timeout","approved"],["stand_in","'
                || CASE WHEN v.rule = 'within_ceilings' THEN 'pass' ELSE 'fail' END || '","' || v.rule
                || '","within_ceilings"],["stand_in_budget","'
                || CASE WHEN v.rule = 'within_ceilings' THEN 'pass' ELSE 'fail' END || '",' || v.used_minor || ','
                || shown_budget || ']';
            IF v.rule <> 'within_ceilings' THEN
                v.reason := 'stand_in_declined';
            END IF;
        END IF;
    END rules;

    IF v.reason IS NOT NULL AND v.reason NOT IN ('stand_in_declined', 'programme_declined') THEN
        -- An earlier rule declined, so the endpoint was not called.
        stands_in := false;
        v.used_minor := p.used_minor;
        v.outage_id := p.outage_id;
        endpoint_result := 'null';
    END IF;
    IF NOT stands_in THEN
        v.rule := NULL;
    END IF;
    IF v.reason IS NULL THEN
        v.approved_minor := s.amount_minor;
        v.response_code := '00';
        expires_ms := now_ms + greatest(p.hold_days, s.hold_days)::bigint * 86400000;
        v.expires_at := bench_instant(expires_ms);
    ELSE
        v.response_code := bench_response_code(v.reason, v.rule);
    END IF;

    v.inputs := '[2,' || now_ms || ',' || c.seq || ',"' || c.state || '",' || c.cardholder_active || ',"' || c.network || '","'
        || c.currency || '",' || c.exp_year || ',' || c.exp_month || ',' || c.controls || ',"' || c.day || '",' || c.day_count || ','
        || c.day_amount_minor || ',' || c.cvv2_failures || ',' || p.version || ',"' || p.status || '","managed","' || p.timezone
        || '",' || p.hold_days || ',' || c.version || ',' || c.posted_minor || ',' || c.held_minor || ',[],null,"'
        || CASE WHEN p.delegated THEN 'delegated' ELSE 'platform' END || '",' || endpoint_result || ','
        || coalesce(remaining_minor::text, 'null') || ',1,false,null]';
    v.decision := '{"decision":"' || CASE WHEN v.reason IS NULL THEN 'approved","reason":null' ELSE 'declined","reason":"' || v.reason || '"' END
        || ',"response_code":"' || v.response_code || '","approval_code":'
        || CASE WHEN v.reason IS NULL THEN '"' || s.approval_code || '"' ELSE 'null' END
        || ',"approved_minor":' || v.approved_minor || ',"decided_by":"' || CASE WHEN stands_in THEN 'stand_in' ELSE 'platform' END
        || '","risk_score":' || s.risk || ',"risk_action":"' || risk_action || '","day":"' || v.day || '","hold_expires_ms":'
        || coalesce(expires_ms::text, 'null') || ',"trace":[' || t || ']'
        || CASE WHEN stands_in THEN ',"stand_in":{"rule":"' || v.rule || '","trigger":"timeout","outage_id":"' || v.outage_id
            || '","exposure_minor":' || v.approved_minor || ',"used_minor":' || v.used_minor || ',"limit_minor":' || shown_budget || '}'
            ELSE '' END || '}';
    v.reply := '{"reply":"answer","response_code":"' || v.response_code || '","authorization_id":"' || s.id || '"'
        || CASE WHEN v.reason IS NULL THEN ',"approval_code":"' || s.approval_code || '","approved_minor":' || v.approved_minor
            ELSE ',"reason":"' || v.reason || '"' END || '}';
    v.decided := '{"authorization_id":"' || s.id || '","card_id":"' || c.id || '","programme_id":"' || c.programme_id
        || '","amount":"' || bench_money(s.amount_minor) || '","currency":"' || s.currency || '","decision":"'
        || CASE WHEN v.reason IS NULL THEN 'approved' ELSE 'declined' END || '","approved_amount":"' || bench_money(v.approved_minor)
        || '","decided_by":"' || CASE WHEN stands_in THEN 'stand_in' ELSE 'platform' END || '","risk":{"score":' || s.risk
        || ',"action":"' || risk_action || '"},"hold_id":' || CASE WHEN v.reason IS NULL THEN '"' || s.hold_id || '"' ELSE 'null' END
        || ',"network_txn_id":' || coalesce('"' || s.network_txn_id || '"', 'null')
        || CASE WHEN v.reason IS NULL THEN '' ELSE ',"decline_reason":"' || v.reason || '"' END || '}';
    IF v.reason IS NULL THEN
        v.placed := '{"hold_id":"' || s.hold_id || '","account_id":"' || c.account_id || '","authorization_id":"' || s.id
            || '","card_id":"' || c.id || '","amount":"' || bench_money(v.approved_minor) || '","asset":"' || c.currency
            || '","held":"' || bench_money(c.held_minor + v.approved_minor) || '","available":"'
            || bench_money(c.posted_minor - c.held_minor - v.approved_minor) || '","expires_at":"' || bench_instant_text(v.expires_at)
            || '","occurred_at":"' || bench_instant_text(v.at) || '"}';
    END IF;
    RETURN v;
END $$;

CREATE FUNCTION bench_after(c bench_card, v bench_verdict) RETURNS bench_card
LANGUAGE plpgsql IMMUTABLE AS $$
-- The card after the decision.
BEGIN
    c.seq := c.seq + 1;
    IF v.approved_minor > 0 THEN
        IF v.day <> c.day THEN
            c.day := v.day;
            c.day_count := 0;
            c.day_amount_minor := 0;
            c.cvv2_failures := 0;
        END IF;
        c.day_count := c.day_count + 1;
        c.day_amount_minor := c.day_amount_minor + v.approved_minor;
        c.held_minor := c.held_minor + v.approved_minor;
        c.version := c.version + 1;
        IF v.rule IS NOT NULL THEN
            c.consumed_minor := c.consumed_minor + v.approved_minor;
        END IF;
    END IF;
    RETURN c;
END $$;

CREATE FUNCTION bench_decide_batch(spends bench_spend[], now_ms bigint) RETURNS SETOF bench_outcome
LANGUAGE plpgsql AS $$
-- Decides each spend on the state that the previous spends have left. The caller has locked all rows.
DECLARE
    found record;
    s bench_spend;
    c bench_card;
    p bench_programmes;
    v bench_verdict;
    made bench_outcome;
BEGIN
    FOR found IN
        SELECT w AS s, (k.id, k.tenant_id, k.live, k.programme_id, k.cardholder_id, k.account_id, k.network, k.currency, k.exp_year,
                k.exp_month, k.state, k.controls, k.cardholder_active, u.seq, u.day, u.day_count, u.day_amount_minor,
                u.cvv2_failures, a.posted_minor, a.held_minor, a.version, d.balance_minor, d.consumed_minor, r.mcc_allow,
                r.mcc_deny, r.country_allow, r.country_deny, r.channel_allow, r.channel_deny, r.per_txn_cap, r.per_day_cap,
                r.per_day_amount_cap)::bench_card AS c,
            row_number() OVER of_card = 1 AS first,
            lead(w.place) OVER of_card IS NULL AS last
        FROM unnest(spends) w JOIN cards k ON k.id = w.card_id JOIN card_usage u ON u.card_id = k.id
        JOIN accounts a ON a.id = k.account_id LEFT JOIN bench_rules r ON r.card_id = k.id
        LEFT JOIN declared_balances d ON d.card_id = k.id
        WINDOW of_card AS (PARTITION BY k.programme_id, w.card_id ORDER BY w.place)
        ORDER BY k.programme_id, w.card_id, w.place
    LOOP
        IF found.first THEN
            c := found.c;
            IF p.id IS DISTINCT FROM c.programme_id THEN
                IF p.delegated THEN
                    UPDATE bench_programmes SET outage_id = p.outage_id, used_minor = p.used_minor WHERE id = p.id;
                END IF;
                SELECT * INTO p FROM bench_programmes WHERE id = c.programme_id;
            END IF;
        END IF;
        s := found.s;
        v := bench_decide(s, c, p, now_ms);
        c := bench_after(c, v);
        p.outage_id := v.outage_id;
        p.used_minor := v.used_minor;
        made := (s.place, s.id, s.card_id, s.command_key, s.command, s.amount_minor, s.currency, s.mcc, s.network_txn_id, s.stan,
            s.rrn, s.hold_id, s.decided_id, s.placed_id, s.stand_in_id, c.tenant_id, c.live, c.programme_id, c.cardholder_id,
            c.account_id, c.seq, c.day, c.day_count, c.day_amount_minor, c.cvv2_failures, c.held_minor, c.version,
            c.consumed_minor, v.reason, v.response_code, v.approved_minor, v.day, v.at, v.expires_at, v.rule, v.outage_id,
            v.used_minor, v.inputs, v.decision, v.reply, v.decided, v.placed, p.budget_minor, found.last);
        RETURN NEXT made;
    END LOOP;
    IF p.delegated THEN
        UPDATE bench_programmes SET outage_id = p.outage_id, used_minor = p.used_minor WHERE id = p.id;
    END IF;
END $$;

CREATE FUNCTION bench_authorize_all(spends bench_spend[], now_ms bigint) RETURNS SETOF bench_answer
LANGUAGE plpgsql AS $$
-- A batch in one call. Every batch locks accounts, and with them their cards, in the same order: batches cannot deadlock.
DECLARE
    ids uuid[] := ARRAY(SELECT DISTINCT s.card_id FROM unnest(spends) s);
BEGIN
    PERFORM 1 FROM accounts a WHERE a.id IN (SELECT account_id FROM cards WHERE id = ANY (ids)) ORDER BY a.id FOR UPDATE;
    PERFORM 1 FROM bench_programmes p WHERE p.delegated AND p.id IN (SELECT programme_id FROM cards WHERE id = ANY (ids))
        ORDER BY p.id FOR UPDATE;
    -- A separate statement: its snapshot includes the commits for which the locking statements waited.
    RETURN QUERY
    WITH made AS MATERIALIZED (SELECT * FROM bench_decide_batch(spends, now_ms)),
    journaled AS (
        INSERT INTO journal_rows SELECT m.card_id, m.seq, 0, m.command_key, m.command_key, 'authorize', m.command,
            m.inputs, m.decision, m.reply, m.at, m.id FROM made m),
    opened AS (
        -- Compact, as commit_batch_v3 writes them.
        INSERT INTO transaction_rows SELECT m.id, m.tenant_id, m.live, m.card_id, NULL, m.programme_id, m.seq,
            CASE WHEN m.reason IS NOT NULL THEN 'purchase' END, CASE WHEN m.reason IS NOT NULL THEN 'declined' END,
            CASE WHEN m.reason IS NULL THEN nullif(m.hold_id, opening_hold(m.id)) END, m.currency, m.amount_minor,
            nullif(m.approved_minor, m.amount_minor),
            nullif(m.approved_minor, m.amount_minor), NULL, NULL, m.reason, m.at, NULL, m.network_txn_id,
            nullif(m.day, (m.at AT TIME ZONE 'UTC')::date::text), nullif(m.approved_minor, m.amount_minor), NULL,
            m.mcc, m.rrn
        FROM made m),
    held AS (
        INSERT INTO holds SELECT m.hold_id, m.account_id, m.card_id, m.id, m.approved_minor, 'held', m.expires_at
        FROM made m WHERE m.reason IS NULL),
    told AS (
        INSERT INTO event_rows (id, tenant_id, live, type, created_at, data)
        SELECT e.id, m.tenant_id, m.live, e.type, m.at, e.data FROM made m CROSS JOIN LATERAL (VALUES
            (m.decided_id, 'authorization.decided', m.decided),
            (m.placed_id, 'ledger.hold.created', m.placed)) e (id, type, data) WHERE e.data IS NOT NULL),
    stood_in AS (
        INSERT INTO stand_ins SELECT m.stand_in_id, m.tenant_id, m.live, m.programme_id, m.card_id, m.id,
            m.outage_id, m.at, CASE WHEN m.reason IS NULL THEN 'approved' ELSE 'declined' END, m.rule, 'timeout',
            m.amount_minor, m.currency, m.mcc, m.approved_minor, m.used_minor, m.budget_minor,
            m.response_code, m.stan, m.rrn FROM made m WHERE m.rule IS NOT NULL),
    counted AS (
        UPDATE card_usage u SET seq = m.seq, day = m.usage_day, day_count = m.day_count,
            day_amount_minor = m.day_amount_minor, cvv2_failures = m.cvv2_failures
        FROM made m WHERE u.card_id = m.card_id AND m.last_of_card),
    balanced AS (
        UPDATE accounts a SET held_minor = m.account_held_minor, version = m.version
        FROM made m WHERE a.id = m.account_id AND m.last_of_card AND a.version <> m.version),
    consumed AS (
        UPDATE declared_balances d SET consumed_minor = m.consumed_minor
        FROM made m WHERE d.card_id = m.card_id AND m.last_of_card AND d.consumed_minor <> m.consumed_minor)
    SELECT m.place, m.response_code, m.approved_minor FROM made m;
END $$;
