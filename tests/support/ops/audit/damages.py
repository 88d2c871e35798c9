"""Statements that damage the rows of a correct history, and the promise that each breaks."""

from __future__ import annotations

from typing import Final

REPEATABLE: Final = "decisions recomputed from stored inputs have the same bytes"
CONFIGURED: Final = "each configuration that a decision names is stored unchanged"
_SHARING: Final = "(SELECT c.id FROM cards c JOIN cards o ON o.account_id = c.account_id AND o.id <> c.id)"
"""Cards that share an account."""

DAMAGES: Final = [
    (
        "UPDATE accounts SET held_minor = held_minor + 1 WHERE kind = 'card'",
        "the held balance is the sum of the open holds",
    ),
    (
        "UPDATE journal_rows SET reply = replace(reply, '00', '01')",
        "replaying a card's journal gives the same answers",
    ),
    (
        "UPDATE card_usage SET day_amount_minor = 1",
        "replaying a card's journal gives the same counters, balance and transactions",
    ),
    (
        f"UPDATE journal_rows SET reply = replace(reply, '00', '01') WHERE actor_id IN {_SHARING}",
        "replaying a card's journal gives the same answers",
    ),
    (
        "UPDATE journal_rows SET recorded_at = recorded_at - interval '1 hour'"
        f" WHERE seq > 3 AND actor_id IN {_SHARING}",
        "replaying a card's journal gives the same answers",
    ),
    (
        f"UPDATE card_usage SET day_count = day_count + 1 WHERE card_id IN {_SHARING}",
        "replaying a card's journal gives the same counters, balance and transactions",
    ),
    (
        "UPDATE accounts SET posted_minor = 1 WHERE kind = 'card'",
        "replaying a card's journal gives the same counters, balance and transactions",
    ),
    (
        "UPDATE transaction_rows SET cleared_minor = 1",
        "replaying a card's journal gives the same counters, balance and transactions",
    ),
    ("UPDATE holds SET amount_minor = amount_minor - 1", "the held balance is the sum of the open holds"),
    (
        "UPDATE accounts SET posted_minor = posted_minor + 1 WHERE kind = 'card'",
        "the posted balance is the sum of the entries",
    ),
    (
        "INSERT INTO ledger_entries SELECT gen_random_uuid(), transfer_id, account_id, direction,"
        " amount_minor, currency, NULL, occurred_at FROM ledger_entries WHERE direction = 'debit' LIMIT 1",
        "the debits of a transfer equal its credits",
    ),
    (
        "UPDATE accounts SET currency = 'USD' WHERE kind = 'settlement'",
        "an entry is in its account's currency",
    ),
    (
        "UPDATE ledger_entries SET authorization_id = gen_random_uuid() WHERE authorization_id IS NOT NULL",
        "settlement reports equal the ledger",
    ),
    ("DELETE FROM journal_rows WHERE kind = 'load'", "seq is gap-free from 1"),
    ("UPDATE card_usage SET seq = seq + 1", "cards and programmes are at their last seq"),
    ("UPDATE programmes SET seq = seq + 1", "cards and programmes are at their last seq"),
    ("UPDATE journal_rows SET epoch = epoch + 9 WHERE kind = 'load'", "epochs never decrease along seq"),
    ("UPDATE journal_rows SET epoch = epoch - 1 WHERE seq > 1", "epochs never decrease along seq"),
    (
        "UPDATE cards SET account_id = (left(account_id::text, 34) ||"
        " CASE right(account_id::text, 2) WHEN '00' THEN '01' ELSE '00' END)::uuid",
        "a card and its account have one owner",
    ),
    ("DELETE FROM transaction_rows WHERE kind = 'refund'", "each first decision has its transaction"),
    ("UPDATE transaction_rows SET seq = seq + 1", "each first decision has its transaction"),
    ("UPDATE transaction_rows SET approved_minor = 1", "a transaction agrees with its decisions"),
    ("UPDATE transaction_rows SET decline_reason = 'card_lost'", "a transaction agrees with its decisions"),
    (
        "DELETE FROM event_rows WHERE type = 'authorization.decided'",
        "each decision has one authorization.decided with the same content",
    ),
    (
        "INSERT INTO event_rows SELECT gen_random_uuid(), tenant_id, live, type, created_at, data"
        " FROM event_rows",
        "each decision has one authorization.decided with the same content",
    ),
    (
        "UPDATE event_rows SET data = replace(data, 'approved', 'declined')"
        " WHERE type = 'authorization.decided'",
        "each decision has one authorization.decided with the same content",
    ),
    (
        "UPDATE event_rows SET data = jsonb_set(data::jsonb, '{authorization_id}', '\"another\"')::text"
        " WHERE type = 'authorization.decided'",
        "each decision has one authorization.decided with the same content",
    ),
    (
        "UPDATE simulations SET response_code = '91', decided_at = now() - interval '1 hour'",
        "simulations answered with 91 or 96 hold nothing",
    ),
    (
        "UPDATE event_rows SET data = (data::jsonb - 'supersedes')::text WHERE data LIKE '%supersedes%'",
        "each decision has one authorization.decided with the same content",
    ),
    (
        "DELETE FROM event_rows WHERE data LIKE '%supersedes%'",
        "each decision has one authorization.decided with the same content",
    ),
    (
        "UPDATE transaction_rows SET decline_reason = 'insufficient_funds'"
        " WHERE coalesce(held_minor, requested_minor) = 300",
        "decisions of the simulated network's own stand-in are advised",
    ),
    ("DELETE FROM holds", "each managed approval has a hold, and no other transaction has one"),
    (
        "UPDATE transaction_rows SET hold_id = id WHERE kind = 'refund'",
        "each managed approval has a hold, and no other transaction has one",
    ),
    (
        "INSERT INTO holds SELECT gen_random_uuid(), account_id, card_id, authorization_id, 1, 'released',"
        " now() FROM holds",
        "a hold belongs to its transaction, and only the newest may be held or captured",
    ),
    (
        "UPDATE holds SET account_id = card_id",
        "a hold belongs to its transaction, and only the newest may be held or captured",
    ),
    (
        "UPDATE transaction_rows SET held_minor = 1",
        "a transaction's held amount is the sum of its open holds, within its remainder",
    ),
    (
        "UPDATE holds SET state = 'released'",
        "a transaction's held amount is the sum of its open holds, within its remainder",
    ),
    (
        "UPDATE transaction_rows SET reversed_minor = 1 WHERE coalesce(held_minor, 1) > 0",
        "a transaction's held amount is the sum of its open holds, within its remainder",
    ),
    (
        "UPDATE transaction_rows SET cleared_minor = 1",
        "a transaction's posted amount is the sum of its entries",
    ),
    (
        "INSERT INTO ledger_entries SELECT gen_random_uuid(), id, id, 'debit', 1, currency, id, now()"
        " FROM transactions WHERE hold_id IS NULL",
        "in gateway mode the platform posts and holds nothing",
    ),
    (
        "UPDATE cards SET account_id = (SELECT min(account_id::text)::uuid FROM cards)"
        " WHERE account_id IS NULL",
        "in gateway mode the platform posts and holds nothing",
    ),
    (
        "UPDATE transaction_rows SET remainder_minor = 0",
        "a gateway transaction is open exactly while it has a remainder",
    ),
    (
        "UPDATE transaction_rows SET status = 'cleared'",
        "a gateway transaction is open exactly while it has a remainder",
    ),
    (
        "UPDATE transaction_rows SET reversed_minor = 1",
        "posting instructions of a gateway transaction add up to its amounts",
    ),
    (
        "DELETE FROM event_rows WHERE type = 'authorization.posting_instruction.issued'",
        "posting instructions of a gateway transaction add up to its amounts",
    ),
    (
        "DELETE FROM event_rows WHERE type = 'clearing.posting_instruction.created'",
        "posting instructions of a gateway transaction add up to its amounts",
    ),
    (
        "UPDATE event_rows SET type = 'authorization.posting_instruction.issued'"
        " WHERE type = 'ledger.entry.posted'",
        "posting instructions of a gateway transaction add up to its amounts",
    ),
    (
        "UPDATE transaction_rows SET cleared_minor = coalesce(cleared_minor, 0) + 1 WHERE kind = 'refund'",
        "a transaction's cleared amount is the sum of its presentments",
    ),
    (
        "UPDATE journal_rows SET authorization_id = NULL WHERE kind = 'present'",
        "a transaction's cleared amount is the sum of its presentments",
    ),
    (
        "UPDATE journal_rows SET command = jsonb_set(command::jsonb, '{sequence}', '1')::text"
        " WHERE kind = 'present'",
        "each acquirer reference and sequence was posted once",
    ),
    (
        "UPDATE transaction_rows SET reversed_minor = requested_minor WHERE kind = 'refund'",
        "a presented refund is credited",
    ),
    ("UPDATE transaction_rows SET network_txn_id = 'one'", "no force post while its authorization was open"),
    (
        "UPDATE card_usage SET day_count = day_count + 1",
        "counters of a card with purchases only are the approvals of its day",
    ),
    (
        "UPDATE card_usage SET day_amount_minor = 0",
        "counters of a card with purchases only are the approvals of its day",
    ),
    ("UPDATE simulations SET response_code = '91'", "simulations show the decision in the journal"),
    ("UPDATE simulations SET approved_minor = 1", "simulations show the decision in the journal"),
    ("UPDATE programmes SET version = version + 1", "a programme's versions rise by 1"),
    (
        "UPDATE outages SET used_minor = used_minor + 1",
        "the used budget of an outage is the sum of its grants",
    ),
    (
        "DELETE FROM journal_rows WHERE kind = 'grant_stand_ins'",
        "the used budget of an outage is the sum of its grants",
    ),
    (
        "UPDATE journal_rows SET reply = replace(reply, '\"used_minor\":2500', '\"used_minor\":500')"
        " WHERE kind = 'grant_stand_ins'",
        "no grant exceeds its outage's budget",
    ),
    (
        "UPDATE journal_rows SET reply = replace(reply, '\"limit_minor\":10000', '\"limit_minor\":2000')"
        " WHERE kind = 'grant_stand_ins'",
        "no grant exceeds its outage's budget",
    ),
    (
        "UPDATE outages SET used_minor = 100 WHERE used_minor > 100",
        "stand-in approvals of an outage do not exceed its used budget",
    ),
    ("DELETE FROM outages", "stand-in approvals of an outage do not exceed its used budget"),
    (
        "UPDATE stand_ins SET outage_id = NULL",
        "stand-in approvals of an outage do not exceed its used budget",
    ),
    (
        "UPDATE stand_ins SET currency = 'USD'",
        "stand-in approvals of an outage do not exceed its used budget",
    ),
    (
        "UPDATE stand_ins SET budget_limit_minor = 1_000",
        "each stand-in approval was within the budget in force",
    ),
    (
        "UPDATE stand_ins SET budget_limit_minor = NULL",
        "each stand-in approval was within the budget in force",
    ),
    ("UPDATE programmes SET outage = NULL", "the open outage of a programme is the one that it references"),
    ("UPDATE outages SET ended_at = now()", "the open outage of a programme is the one that it references"),
    (
        "UPDATE outages SET used_minor = 0 WHERE ended_at IS NULL",
        "the open outage of a programme is the one that it references",
    ),
    (
        "DROP INDEX outages_open; UPDATE outages SET ended_at = NULL",
        "the open outage of a programme is the one that it references",
    ),
    (
        "DELETE FROM event_rows WHERE type = 'authorization.stip_outage.finished'",
        "each ended outage has one authorization.stip_outage.finished",
    ),
    (
        "INSERT INTO event_rows SELECT gen_random_uuid(), tenant_id, live, type, created_at, data"
        " FROM event_rows"
        " WHERE type = 'authorization.stip_outage.finished'",
        "each ended outage has one authorization.stip_outage.finished",
    ),
    (
        "UPDATE outages SET ended_at = now() WHERE ended_at IS NULL",
        "each ended outage has one authorization.stip_outage.finished",
    ),
    (
        "DELETE FROM stand_ins WHERE decision = 'declined'",
        "each stand-in decision has an equal row in the report",
    ),
    (
        "INSERT INTO stand_ins SELECT gen_random_uuid(), tenant_id, live, programme_id, card_id,"
        " authorization_id, outage_id, decided_at, decision, rule, trigger, amount_minor, currency, mcc,"
        " exposure_minor, budget_used_minor, budget_limit_minor, response_code, stan, rrn FROM stand_ins",
        "each stand-in decision has an equal row in the report",
    ),
    ("UPDATE stand_ins SET rule = 'mode_disabled'", "each stand-in decision has an equal row in the report"),
    (
        "UPDATE stand_ins SET exposure_minor = exposure_minor - 1 WHERE exposure_minor > 0",
        "each stand-in decision has an equal row in the report",
    ),
    (
        "UPDATE declared_balances SET consumed_minor = consumed_minor + 1",
        "consumption of a declared balance equals the exposure since its declaration",
    ),
    (
        "UPDATE declared_balances SET consumed_minor = 0",
        "consumption of a declared balance equals the exposure since its declaration",
    ),
    (
        "DELETE FROM kyc_values WHERE field = 'nationality'",
        "a case's values in custody are those that its tokens name",
    ),
    ("UPDATE kyc_checks SET tokens = '{}'", "a case's values in custody are those that its tokens name"),
    (
        "UPDATE kyc_data_keys SET wrapped = NULL, destroyed_at = now()",
        "a case's values in custody are those that its tokens name",
    ),
    ("UPDATE cardholders SET kyc_state = 'failed'", "a cardholder's KYC state follows from their checks"),
    ("UPDATE cardholders SET status = 'blocked'", "a card declines exactly while its cardholder"),
    ("UPDATE cards SET cardholder_active = false", "a card declines exactly while its cardholder"),
    ("UPDATE cardholders SET kyc_state = 'pending'", "a cardholder's KYC state follows from their checks"),
    (
        "UPDATE cardholders SET data_key = NULL, given_name_sealed = NULL, family_name_sealed = NULL,"
        " email_sealed = NULL, phone_sealed = NULL, date_of_birth_sealed = NULL, address_sealed = NULL,"
        " email_digest = NULL, external_ref = NULL, status = 'closed', erased_at = now()",
        "a cardholder has a data key, or is erased with the custody of their checks",
    ),
    (
        "ALTER TABLE shards DROP CONSTRAINT shards_shard_check; INSERT INTO shards (shard) VALUES (256)",
        "the id space has 256 shards",
    ),
    ("DELETE FROM deliveries", "each event has a delivery for each subscribed endpoint"),
    ("UPDATE deliveries SET redelivery = true", "each event has a delivery for each subscribed endpoint"),
    (
        "DELETE FROM deliveries WHERE state = 'pending'",
        "each event has a delivery for each subscribed endpoint",
    ),
    (
        "UPDATE webhook_endpoints SET status = 'enabled' WHERE status = 'disabled'",
        "each event has a delivery for each subscribed endpoint",
    ),
    (
        "UPDATE deliveries SET attempts = 7",
        "attempts of a delivery are numbered from 1, and at most as many as scheduled",
    ),
    (
        "UPDATE deliveries SET attempts = attempts + 2",
        "attempts of a delivery are numbered from 1, and at most as many as scheduled",
    ),
    (
        "UPDATE delivery_attempts SET number = 2",
        "attempts of a delivery are numbered from 1, and at most as many as scheduled",
    ),
    (
        "UPDATE deliveries SET attempts = 0",
        "attempts of a delivery are numbered from 1, and at most as many as scheduled",
    ),
    (
        "UPDATE delivery_attempts SET number = 2; UPDATE deliveries SET attempts = 3",
        "no attempt was earlier than scheduled",
    ),
    (
        "UPDATE delivery_attempts SET started_at = started_at - interval '1 second'",
        "no attempt was earlier than scheduled",
    ),
    (
        "UPDATE deliveries SET state = 'delivered', next_attempt_at = NULL WHERE state = 'pending'",
        "a delivery is delivered exactly if an attempt was answered with 2xx",
    ),
    (
        "UPDATE delivery_attempts SET status_code = 204",
        "a delivery is delivered exactly if an attempt was answered with 2xx",
    ),
    (
        "UPDATE delivery_attempts SET status_code = 302",
        "a delivery is delivered exactly if an attempt was answered with 2xx",
    ),
    ("DELETE FROM delivery_attempts", "a delivery is delivered exactly if an attempt was answered with 2xx"),
    (
        "UPDATE deliveries SET state = 'failed', next_attempt_at = NULL, failure = 'attempts_exhausted'"
        " WHERE state = 'pending'",
        "a delivery is delivered exactly if an attempt was answered with 2xx",
    ),
    (
        "DELETE FROM transfers WHERE kind = 'fee'",
        "each load and transfer in the journal has an equal row",
    ),
    (
        "UPDATE transfers SET amount_minor = amount_minor + 1",
        "each load and transfer in the journal has an equal row",
    ),
    (
        "UPDATE transfers SET direction = 'credit' WHERE kind = 'fee'",
        "a transfer has two entries, on its account and on the funding source",
    ),
    (
        "DELETE FROM ledger_entries WHERE authorization_id IS NULL AND direction = 'debit'",
        "a transfer has two entries, on its account and on the funding source",
    ),
    (
        "INSERT INTO ledger_entries SELECT gen_random_uuid(), transfer_id, account_id, direction,"
        " amount_minor, currency, NULL, now() FROM ledger_entries WHERE authorization_id IS NULL",
        "a transfer has two entries, on its account and on the funding source",
    ),
    (
        "UPDATE transfers SET reversal_id = NULL, reversed_at = NULL",
        "a reversal is exact and single",
    ),
    (
        "UPDATE ledger_entries SET amount_minor = amount_minor + 1"
        " WHERE transfer_id IN (SELECT reversal_id FROM transfers)",
        "a reversal is exact and single",
    ),
    (
        "INSERT INTO journal_rows SELECT actor_id, seq + 1000, epoch, command_key || 'x', fingerprint, kind,"
        " command, inputs, decision, reply, recorded_at, authorization_id FROM journal_rows"
        " WHERE kind = 'reverse_transfer'",
        "a reversal is exact and single",
    ),
    (
        "UPDATE ledger_entries SET transfer_id = id WHERE authorization_id IS NULL",
        "an entry without an authorization belongs to a transfer or to a reversal",
    ),
    (
        "UPDATE account_sums SET posted_minor = posted_minor + 1",
        "the balance of a programme's own account is the sum of its entries",
    ),
    (
        "DELETE FROM account_sums",
        "the balance of a programme's own account is the sum of its entries",
    ),
    ("UPDATE journal_rows SET inputs = replace(inputs, '\"active\"', '\"lost\"')", REPEATABLE),
    ("UPDATE journal_rows SET decision = replace(decision, ',', ', ')", REPEATABLE),
    ("DELETE FROM decision_configurations", CONFIGURED),
    ("UPDATE decision_configurations SET card = replace(card, '\"active\"', '\"lost\"')", CONFIGURED),
    ("DELETE FROM card_replacements", "each executed replacement links its card with one replacement"),
    (
        "UPDATE card_replacements SET replacement_id = gen_random_uuid()",
        "each executed replacement links its card with one replacement",
    ),
    (
        "UPDATE cards SET state = 'active' WHERE id IN (SELECT card_id FROM card_replacements)",
        "a replaced card has ended, and its replacement has its account",
    ),
    (
        "UPDATE cards SET account_id = NULL WHERE id IN (SELECT replacement_id FROM card_replacements)",
        "a replaced card has ended, and its replacement has its account",
    ),
    (
        "UPDATE journal_rows SET command = (command::jsonb #- '{continues,day_count}')::text"
        " WHERE kind = 'create_card'",
        "a replacement continues the counters of its card",
    ),
    (
        "UPDATE card_usage SET day_count = day_count - 1"
        " WHERE card_id IN (SELECT replacement_id FROM card_replacements)",
        "counters of a card with purchases only are the approvals of its day",
    ),
    (
        "UPDATE declared_balances SET consumed_minor = 1"
        " WHERE card_id IN (SELECT replacement_id FROM card_replacements)",
        "consumption of a declared balance equals the exposure since its declaration",
    ),
    (
        "DELETE FROM custody_log WHERE act = 'viewed'",
        "a card number is shown once for each session, and each view is in the custody log",
    ),
    (
        "INSERT INTO custody_log (at, tenant_id, live, card_id, session_id, act, actor, purpose)"
        " SELECT at, tenant_id, live, card_id, session_id, act, actor, purpose FROM custody_log",
        "a card number is shown once for each session, and each view is in the custody log",
    ),
]
