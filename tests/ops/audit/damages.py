"""Lies in the rows of a true history, and what each makes untrue."""

from __future__ import annotations

from typing import Final

REPEATABLE: Final = "decisions made again from their stored inputs give the same bytes"

DAMAGES: Final = [
    ("UPDATE accounts SET held_minor = held_minor + 1 WHERE kind = 'card'", "held is the sum of the open"),
    ("UPDATE journal SET reply = replace(reply, '00', '01')", "a card's journal lived through again"),
    ("UPDATE card_usage SET day_amount_minor = 1", "and leaves its counters, balance and transactions"),
    ("UPDATE accounts SET posted_minor = 1 WHERE kind = 'card'", "and leaves its counters, balance and"),
    ("UPDATE transactions SET cleared_minor = 1", "and leaves its counters, balance and transactions"),
    ("UPDATE holds SET amount_minor = amount_minor - 1", "held is the sum of the open holds"),
    ("UPDATE accounts SET posted_minor = posted_minor + 1 WHERE kind = 'card'", "posted is the sum of the"),
    (
        "INSERT INTO ledger_entries SELECT gen_random_uuid(), transfer_id, account_id, direction,"
        " amount_minor, currency, NULL, occurred_at FROM ledger_entries WHERE direction = 'debit' LIMIT 1",
        "the debits of a transfer are its credits",
    ),
    (
        "UPDATE accounts SET currency = 'USD' WHERE kind = 'settlement'",
        "an entry is in its account's currency",
    ),
    ("DELETE FROM journal WHERE kind = 'load'", "seq is gap-free from 1"),
    ("UPDATE card_usage SET seq = seq + 1", "cards and programmes stand at their last seq"),
    ("UPDATE programmes SET seq = seq + 1", "cards and programmes stand at their last seq"),
    ("UPDATE journal SET epoch = epoch + 9 WHERE kind = 'load'", "epochs never decrease along seq"),
    ("UPDATE journal SET epoch = epoch - 1 WHERE seq > 1", "epochs never decrease along seq"),
    (
        "UPDATE cards SET account_id = (left(account_id::text, 34) ||"
        " CASE right(account_id::text, 2) WHEN '00' THEN '01' ELSE '00' END)::uuid",
        "a card and its account have one owner",
    ),
    ("DELETE FROM transactions WHERE kind = 'refund'", "each first decision has its transaction"),
    ("UPDATE transactions SET seq = seq + 1", "each first decision has its transaction"),
    ("UPDATE transactions SET approved_minor = 1", "a transaction says what was decided"),
    ("UPDATE transactions SET decline_reason = 'card_lost'", "a transaction says what was decided"),
    (
        "DELETE FROM events WHERE type = 'authorization.decided'",
        "each decision has one authorization.decided",
    ),
    (
        "INSERT INTO events SELECT gen_random_uuid(), tenant_id, live, type, created_at, data FROM events",
        "each decision has one authorization.decided",
    ),
    (
        "UPDATE events SET data = replace(data, 'approved', 'declined') WHERE type = 'authorization.decided'",
        "each decision has one authorization.decided",
    ),
    (
        "UPDATE events SET data = jsonb_set(data::jsonb, '{authorization_id}', '\"another\"')::text"
        " WHERE type = 'authorization.decided'",
        "each decision has one authorization.decided",
    ),
    (
        "UPDATE simulations SET response_code = '91', decided_at = now() - interval '1 hour'",
        "what the simulated network was told has failed holds nothing",
    ),
    (
        "UPDATE events SET data = (data::jsonb - 'supersedes')::text WHERE data LIKE '%supersedes%'",
        "each decision has one authorization.decided",
    ),
    ("DELETE FROM events WHERE data LIKE '%supersedes%'", "each decision has one authorization.decided"),
    (
        "UPDATE transactions SET decline_reason = 'insufficient_funds' WHERE held_minor = 300",
        "what the simulated network decided in the platform's stead stands",
    ),
    ("DELETE FROM holds", "each managed approval has a hold"),
    ("UPDATE transactions SET hold_id = id WHERE kind = 'refund'", "each managed approval has a hold"),
    (
        "INSERT INTO holds SELECT gen_random_uuid(), account_id, card_id, authorization_id, 1, 'released',"
        " now() FROM holds",
        "a hold is its transaction's",
    ),
    ("UPDATE holds SET account_id = card_id", "a hold is its transaction's"),
    ("UPDATE transactions SET held_minor = 1", "a transaction holds what its holds hold"),
    ("UPDATE holds SET state = 'released'", "a transaction holds what its holds hold"),
    (
        "UPDATE transactions SET reversed_minor = 1 WHERE held_minor > 0",
        "a transaction holds what its holds hold",
    ),
    ("UPDATE transactions SET cleared_minor = 1", "what was posted for a transaction are its entries"),
    (
        "INSERT INTO ledger_entries SELECT gen_random_uuid(), id, id, 'debit', 1, currency, id, now()"
        " FROM transactions WHERE hold_id IS NULL",
        "in gateway mode nothing is posted or held here",
    ),
    (
        "UPDATE cards SET account_id = (SELECT min(account_id::text)::uuid FROM cards)"
        " WHERE account_id IS NULL",
        "in gateway mode nothing is posted or held here",
    ),
    ("UPDATE transactions SET remainder_minor = 0", "a gateway transaction is open as long as something"),
    ("UPDATE transactions SET status = 'cleared'", "a gateway transaction is open as long as something"),
    ("UPDATE transactions SET reversed_minor = 1", "a gateway programme was told to post what became"),
    (
        "DELETE FROM events WHERE type = 'authorization.posting_instruction.issued'",
        "a gateway programme was told to post what became",
    ),
    (
        "DELETE FROM events WHERE type = 'clearing.posting_instruction.created'",
        "a gateway programme was told to post what became",
    ),
    (
        "UPDATE events SET type = 'authorization.posting_instruction.issued'"
        " WHERE type = 'ledger.entry.posted'",
        "a gateway programme was told to post what became",
    ),
    (
        "UPDATE transactions SET cleared_minor = cleared_minor + 1 WHERE kind = 'refund'",
        "what was cleared of a transaction are its presentments",
    ),
    (
        "UPDATE journal SET authorization_id = NULL WHERE kind = 'present'",
        "what was cleared of a transaction are its presentments",
    ),
    (
        "UPDATE journal SET command = jsonb_set(command::jsonb, '{sequence}', '1')::text"
        " WHERE kind = 'present'",
        "each acquirer reference and sequence was posted once",
    ),
    (
        "UPDATE transactions SET reversed_minor = approved_minor WHERE kind = 'refund'",
        "a refund that was presented is with the cardholder",
    ),
    ("UPDATE transactions SET network_txn_id = 'one'", "no sale was posted by force while its authorization"),
    ("UPDATE card_usage SET day_count = day_count + 1", "counters of a card that was only spent on"),
    ("UPDATE card_usage SET day_amount_minor = 0", "counters of a card that was only spent on"),
    ("UPDATE simulations SET response_code = '91'", "what the simulated network heard was decided"),
    ("UPDATE simulations SET approved_minor = 1", "what the simulated network heard was decided"),
    ("UPDATE programmes SET version = version + 1", "a programme's versions rise by 1"),
    ("UPDATE outages SET used_minor = used_minor + 1", "what is used of an outage's budgets was granted"),
    (
        "DELETE FROM journal WHERE kind = 'grant_stand_ins'",
        "what is used of an outage's budgets was granted",
    ),
    (
        "UPDATE journal SET reply = replace(reply, '\"used_minor\":2500', '\"used_minor\":500')"
        " WHERE kind = 'grant_stand_ins'",
        "at every grant of an outage the budget was kept",
    ),
    (
        "UPDATE journal SET reply = replace(reply, '\"limit_minor\":10000', '\"limit_minor\":2000')"
        " WHERE kind = 'grant_stand_ins'",
        "at every grant of an outage the budget was kept",
    ),
    ("UPDATE outages SET used_minor = 100 WHERE used_minor > 100", "no more was approved in an outage"),
    ("DELETE FROM outages", "no more was approved in an outage"),
    ("UPDATE stand_ins SET outage_id = NULL", "no more was approved in an outage"),
    ("UPDATE stand_ins SET currency = 'USD'", "no more was approved in an outage"),
    ("UPDATE stand_ins SET budget_limit_minor = 1_000", "an approval in stand-in was inside the budget"),
    ("UPDATE stand_ins SET budget_limit_minor = NULL", "an approval in stand-in was inside the budget"),
    ("UPDATE programmes SET outage = NULL", "a programme knows its open outage, and has no other"),
    ("UPDATE outages SET ended_at = now()", "a programme knows its open outage, and has no other"),
    ("UPDATE outages SET used_minor = 0 WHERE ended_at IS NULL", "a programme knows its open outage"),
    (
        "DROP INDEX outages_open; UPDATE outages SET ended_at = NULL",
        "a programme knows its open outage, and has no other",
    ),
    (
        "DELETE FROM events WHERE type = 'authorization.stip_outage.finished'",
        "each outage that ended has one authorization.stip_outage.finished",
    ),
    (
        "INSERT INTO events SELECT gen_random_uuid(), tenant_id, live, type, created_at, data FROM events"
        " WHERE type = 'authorization.stip_outage.finished'",
        "each outage that ended has one authorization.stip_outage.finished",
    ),
    (
        "UPDATE outages SET ended_at = now() WHERE ended_at IS NULL",
        "each outage that ended has one authorization.stip_outage.finished",
    ),
    ("DELETE FROM stand_ins WHERE decision = 'declined'", "each decision in stand-in is in the report"),
    (
        "INSERT INTO stand_ins SELECT gen_random_uuid(), tenant_id, live, programme_id, card_id,"
        " authorization_id, outage_id, decided_at, decision, rule, trigger, amount_minor, currency, mcc,"
        " exposure_minor, budget_used_minor, budget_limit_minor, response_code, stan, rrn FROM stand_ins",
        "each decision in stand-in is in the report",
    ),
    ("UPDATE stand_ins SET rule = 'mode_disabled'", "each decision in stand-in is in the report"),
    (
        "UPDATE stand_ins SET exposure_minor = exposure_minor - 1 WHERE exposure_minor > 0",
        "each decision in stand-in is in the report",
    ),
    (
        "UPDATE declared_balances SET consumed_minor = consumed_minor + 1",
        "what is consumed of a declared balance is the exposure since",
    ),
    (
        "UPDATE declared_balances SET consumed_minor = 0",
        "what is consumed of a declared balance is the exposure since",
    ),
    ("DELETE FROM kyc_values WHERE field = 'nationality'", "a case has custody of what its tokens name"),
    ("UPDATE kyc_checks SET tokens = '{}'", "a case has custody of what its tokens name"),
    (
        "UPDATE kyc_data_keys SET wrapped = NULL, destroyed_at = now()",
        "a case has custody of what its tokens name",
    ),
    ("UPDATE cardholders SET kyc_state = 'failed'", "a cardholder shows what their checks say"),
    ("UPDATE cardholders SET status = 'blocked'", "a card declines exactly while its cardholder"),
    ("UPDATE cards SET cardholder_active = false", "a card declines exactly while its cardholder"),
    ("UPDATE cardholders SET kyc_state = 'pending'", "a cardholder shows what their checks say"),
    (
        "UPDATE cardholders SET data_key = NULL, given_name_sealed = NULL, family_name_sealed = NULL,"
        " email_sealed = NULL, phone_sealed = NULL, date_of_birth_sealed = NULL, address_sealed = NULL,"
        " email_digest = NULL, external_ref = NULL, status = 'closed', erased_at = now()",
        "a cardholder has a data key, or is erased with what their checks have in custody",
    ),
    (
        "ALTER TABLE shards DROP CONSTRAINT shards_shard_check; INSERT INTO shards (shard) VALUES (256)",
        "the id space has 256 shards",
    ),
    ("DELETE FROM deliveries", "each event has a delivery for each endpoint that wants it"),
    ("UPDATE deliveries SET redelivery = true", "each event has a delivery for each endpoint"),
    ("DELETE FROM deliveries WHERE state = 'pending'", "each event has a delivery for each endpoint"),
    (
        "UPDATE webhook_endpoints SET status = 'enabled' WHERE status = 'disabled'",
        "each event has a delivery for each endpoint",
    ),
    ("UPDATE deliveries SET attempts = 7", "the attempts of a delivery are numbered from 1"),
    ("UPDATE deliveries SET attempts = attempts + 2", "the attempts of a delivery are numbered from 1"),
    ("UPDATE delivery_attempts SET number = 2", "the attempts of a delivery are numbered from 1"),
    ("UPDATE deliveries SET attempts = 0", "the attempts of a delivery are numbered from 1"),
    (
        "UPDATE delivery_attempts SET number = 2; UPDATE deliveries SET attempts = 3",
        "no attempt came before its place",
    ),
    (
        "UPDATE delivery_attempts SET started_at = started_at - interval '1 second'",
        "no attempt came before its place in the schedule",
    ),
    (
        "UPDATE deliveries SET state = 'delivered', next_attempt_at = NULL WHERE state = 'pending'",
        "a delivery is delivered where an attempt was answered so",
    ),
    (
        "UPDATE delivery_attempts SET status_code = 204",
        "a delivery is delivered where an attempt was answered so",
    ),
    (
        "UPDATE delivery_attempts SET status_code = 302",
        "a delivery is delivered where an attempt was answered so",
    ),
    ("DELETE FROM delivery_attempts", "a delivery is delivered where an attempt was answered so"),
    (
        "UPDATE deliveries SET state = 'failed', next_attempt_at = NULL, failure = 'attempts_exhausted'"
        " WHERE state = 'pending'",
        "a delivery is delivered where an attempt was answered so",
    ),
    ("UPDATE journal SET inputs = replace(inputs, '\"active\"', '\"lost\"')", REPEATABLE),
    ("UPDATE journal SET decision = replace(decision, ',', ', ')", REPEATABLE),
]
