-- The rival inside Redis: one atomic script with the rules of engine/decision/decide.py that apply to a benchmark's spends. It
-- stores the data of PostgreSQL's rows. Keys: the card, its programme. Programmes have UTC days and no delegated decisions.

local card_key, programme_key = KEYS[1], KEYS[2]
local id, card_id, command_key, command = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local amount_minor, currency, mcc, country, channel = tonumber(ARGV[5]), ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local risk, hold_days, approval_code, network_txn_id = tonumber(ARGV[10]), tonumber(ARGV[11]), ARGV[12], ARGV[13]
local hold_id, decided_id, placed_id = ARGV[14], ARGV[15], ARGV[16]
local now_ms = tonumber(ARGV[17])

local function whole(number) return string.format('%.0f', number) end

local function money(minor)
    local sign = minor < 0 and '-' or ''
    minor = math.abs(minor)
    return string.format('%s%.0f.%02d', sign, math.floor(minor / 100), minor % 100)
end

-- Days since 1970 to a date of the Gregorian calendar (Howard Hinnant's algorithm; Redis gives scripts no calendar).
local function date(days)
    local z = days + 719468
    local era = math.floor(z / 146097)
    local doe = z - era * 146097
    local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
    local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
    local mp = math.floor((5 * doy + 2) / 153)
    local day = doy - math.floor((153 * mp + 2) / 5) + 1
    local month = mp < 10 and mp + 3 or mp - 9
    local year = yoe + era * 400 + (month <= 2 and 1 or 0)
    return string.format('%04d-%02d-%02d', year, month, day)
end

local function instant(at_ms)
    local day_ms = at_ms % 86400000
    local seconds = math.floor(day_ms / 1000)
    return string.format('%sT%02d:%02d:%02d.%03dZ', date(math.floor(at_ms / 86400000)), math.floor(seconds / 3600),
        math.floor(seconds / 60) % 60, seconds % 60, day_ms % 1000)
end

local function contains(values, wanted)
    for _, value in ipairs(values) do
        if value == wanted then return true end
    end
    return false
end

if redis.call('SET', 'command:' .. command_key, id, 'NX') == false then
    return redis.error_reply('DUPLICATE command')
end
local found = redis.call('HMGET', card_key, 'state', 'exp_year', 'exp_month', 'cardholder_active', 'network', 'currency',
    'controls', 'seq', 'day', 'day_count', 'day_amount_minor', 'cvv2_failures', 'posted_minor', 'held_minor', 'version',
    'tenant_id', 'live', 'cardholder_id', 'account_id', 'programme_id')
if not found[1] then
    redis.call('DEL', 'command:' .. command_key)
    return false
end
local state, exp_year, exp_month, cardholder_active = found[1], tonumber(found[2]), tonumber(found[3]), found[4]
local network, card_currency, controls, seq, day = found[5], found[6], found[7], tonumber(found[8]), found[9]
local day_count, day_amount, cvv2_failures = tonumber(found[10]), tonumber(found[11]), tonumber(found[12])
local posted, held, version = tonumber(found[13]), tonumber(found[14]), tonumber(found[15])
local tenant_id, live, cardholder_id, account_id, programme_id = found[16], found[17], found[18], found[19], found[20]
local programme = redis.call('HMGET', programme_key, 'version', 'status', 'hold_days')
local programme_version, programme_status, programme_days = programme[1], programme[2], tonumber(programme[3])

local today = date(math.floor(now_ms / 86400000))
local decided_day = today > day and today or day
local count_before = decided_day == day and day_count or 0
local amount_before = decided_day == day and day_amount or 0
local trace = {}

local function step(rule, passed, observed, limit)
    trace[#trace + 1] = '["' .. rule .. '","' .. (passed and 'pass' or 'fail') .. '",' .. observed .. ',' .. limit .. ']'
    return passed
end

local function text(value) return '"' .. value .. '"' end

local ALLOWANCES = {
    mcc_allow = {mcc, 'mcc_not_allowed', true}, mcc_deny = {mcc, 'mcc_not_allowed', false},
    country_allow = {country, 'country_not_allowed', true}, country_deny = {country, 'country_not_allowed', false},
    channel_allow = {channel, 'channel_not_allowed', true}, channel_deny = {channel, 'channel_not_allowed', false}}

local function control_reason(control)
    local kind = control.kind
    local allowance = ALLOWANCES[kind]
    if allowance then
        local passed = contains(control.values, allowance[1]) == allowance[3]
        return not step(kind, passed, text(allowance[1]), 'null') and allowance[2] or nil
    elseif kind == 'per_txn_cap' then
        local cap = control.amount_minor
        return not step(kind, amount_minor <= cap, whole(amount_minor), whole(cap)) and 'per_txn_cap_exceeded' or nil
    elseif kind == 'per_day_cap' then
        local cap = control.count
        return not step(kind, count_before < cap, whole(count_before), whole(cap)) and 'per_day_count_exceeded' or nil
    end
    local cap = control.amount_minor
    local within = amount_before + amount_minor <= cap
    return not step(kind, within, whole(amount_before), whole(cap)) and 'per_day_amount_exceeded' or nil
end

local function judge()
    if not step('card_state', state == 'active', text(state), '"active"') then return 'card_' .. state end
    local expiry = string.format('%04d-%02d', exp_year, exp_month)
    if not step('card_expiry', string.sub(decided_day, 1, 7) <= expiry, text(decided_day), text(expiry)) then
        return 'card_expired'
    end
    if not step('cardholder', cardholder_active == 'true', 'null', 'null') then return 'cardholder_blocked' end
    if not step('programme', programme_status == 'active', text(programme_status), '"active"') then
        return 'programme_inactive'
    end
    trace[#trace + 1] = '["cvv2","skip",null,null],["authentication","skip",null,null]'
    if not step('currency', currency == card_currency, text(currency), text(card_currency)) then
        return 'currency_not_supported'
    end
    if controls ~= '[]' then
        for _, control in ipairs(cjson.decode(controls)) do
            local refused = control_reason(control)
            if refused then return refused end
        end
    end
    if not step('risk', risk < 90, whole(risk), '90') then return 'risk_blocked' end
    if not step('funds', amount_minor <= posted - held, whole(posted - held), whole(amount_minor)) then
        return 'insufficient_funds'
    end
    return nil
end

local CODES = {
    card_lost = '41', card_stolen = '43', card_terminated = '46', card_unactivated = '78', card_suspended = '62',
    card_expired = '54', cardholder_blocked = '57', programme_inactive = '57', currency_not_supported = '12',
    mcc_not_allowed = '57', country_not_allowed = '62', channel_not_allowed = '57', per_txn_cap_exceeded = '61',
    per_day_count_exceeded = '65', per_day_amount_exceeded = '61', risk_blocked = '59', insufficient_funds = '51'}

local reason = judge()
local approved = reason == nil
local approved_minor = approved and amount_minor or 0
local code = approved and '00' or CODES[reason]
local expires_ms = now_ms + math.max(programme_days, hold_days) * 86400000
local action = risk >= 90 and 'block' or risk >= 50 and 'review' or 'allow'
local outcome = approved and 'approved' or 'declined'
local at = whole(now_ms)

local inputs = table.concat({'[2,', at, ',', whole(seq), ',"', state, '",', cardholder_active, ',"', network, '","', card_currency,
    '",', whole(exp_year), ',', whole(exp_month), ',', controls, ',"', day, '",', whole(day_count), ',', whole(day_amount), ',',
    whole(cvv2_failures), ',', programme_version, ',"', programme_status, '","managed","UTC",', whole(programme_days), ',',
    whole(version), ',', whole(posted), ',', whole(held), ',[],null,"platform",null,null,1,false,null]'})
local decision = table.concat({'{"decision":"', outcome, '","reason":', approved and 'null' or text(reason),
    ',"response_code":"', code, '","approval_code":', approved and text(approval_code) or 'null', ',"approved_minor":',
    whole(approved_minor), ',"decided_by":"platform","risk_score":', whole(risk), ',"risk_action":"', action, '","day":"',
    decided_day, '","hold_expires_ms":', approved and whole(expires_ms) or 'null', ',"trace":[', table.concat(trace, ','), ']}'})
local reply = table.concat({'{"reply":"answer","response_code":"', code, '","authorization_id":"', id, '"',
    approved and ',"approval_code":"' .. approval_code .. '","approved_minor":' .. whole(approved_minor) or ',"reason":' .. text(reason), '}'})
local decided = table.concat({'{"authorization_id":"', id, '","card_id":"', card_id, '","programme_id":"', programme_id,
    '","amount":"', money(amount_minor), '","currency":"', currency, '","decision":"', outcome, '","approved_amount":"',
    money(approved_minor), '","decided_by":"platform","risk":{"score":', whole(risk), ',"action":"', action, '"},"hold_id":',
    approved and text(hold_id) or 'null', ',"network_txn_id":', network_txn_id ~= '' and text(network_txn_id) or 'null',
    approved and '' or ',"decline_reason":"' .. reason .. '"', '}'})

seq = seq + 1
redis.call('XADD', 'journal', '*', 'actor_id', card_id, 'seq', whole(seq), 'command_key', command_key, 'kind', 'authorize',
    'command', command, 'inputs', inputs, 'decision', decision, 'reply', reply, 'recorded_ms', at, 'authorization_id', id)
redis.call('HSET', 'transaction:' .. id, 'tenant_id', tenant_id, 'live', live, 'card_id', card_id, 'cardholder_id',
    cardholder_id, 'programme_id', programme_id, 'seq', whole(seq), 'kind', 'purchase', 'status',
    approved and 'pending' or 'declined', 'hold_id', approved and hold_id or '', 'currency', currency, 'requested_minor',
    whole(amount_minor), 'approved_minor', whole(approved_minor), 'held_minor', whole(approved_minor), 'decline_reason',
    reason or '', 'created_ms', at, 'network_txn_id', network_txn_id, 'day', decided_day)
redis.call('XADD', 'events', '*', 'id', decided_id, 'tenant_id', tenant_id, 'live', live, 'type', 'authorization.decided',
    'created_ms', at, 'data', decided)
if not approved then
    redis.call('HSET', card_key, 'seq', whole(seq))
    return {code, 0}
end
held = held + approved_minor
redis.call('HSET', 'hold:' .. hold_id, 'account_id', account_id, 'card_id', card_id, 'authorization_id', id, 'amount_minor',
    whole(approved_minor), 'state', 'held', 'expires_ms', whole(expires_ms))
redis.call('ZADD', 'holds_due', expires_ms, hold_id)
redis.call('SADD', 'holds_open:' .. account_id, hold_id)
redis.call('XADD', 'events', '*', 'id', placed_id, 'tenant_id', tenant_id, 'live', live, 'type', 'ledger.hold.created',
    'created_ms', at, 'data', table.concat({'{"hold_id":"', hold_id, '","account_id":"', account_id, '","authorization_id":"', id,
        '","card_id":"', card_id, '","amount":"', money(approved_minor), '","asset":"', card_currency, '","held":"', money(held),
        '","available":"', money(posted - held), '","expires_at":"', instant(expires_ms), '","occurred_at":"', instant(now_ms),
        '"}'}))
redis.call('HSET', card_key, 'seq', whole(seq), 'day', decided_day, 'day_count', whole(count_before + 1), 'day_amount_minor',
    whole(amount_before + approved_minor), 'cvv2_failures', decided_day == day and whole(cvv2_failures) or '0', 'held_minor',
    whole(held), 'version', whole(version + 1))
return {code, approved_minor}
