"""The audit of the books: silent about a true history, and not fooled by any damage to it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from actors.network.custody import CardCustody
from actors.settings import Settings
from actors.vault import Vault
from ops.audit import AuditError, Finding, audit, findings
from ops.embedded.ports import free_port
from ops.local_https import with_local_egress
from tests.api.delegation import declare, delegated_card, money, policy, put_policy
from tests.api.driver import Caller
from tests.api.kyc.applicants import begin, passed_check
from tests.api.stack import Installation, installation
from tests.conformance.decision_endpoint import approve, decision_endpoint, hang_up
from tests.conformance.peer import Document
from tests.conftest import PostgresServer, execute
from tests.integration.acquirer import Acquirer, later, private, purchase

ROOT = Path(__file__).parents[2]
REPEATABLE = "decisions made again from their stored inputs give the same bytes"

# Each is one lie in the rows; on the right, what it makes untrue.
DAMAGES = [
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
    ("UPDATE cardholders SET kyc_state = 'pending'", "a cardholder shows what their checks say"),
    (
        "ALTER TABLE shards DROP CONSTRAINT shards_shard_check; INSERT INTO shards (shard) VALUES (256)",
        "the id space has 256 shards",
    ),
    ("UPDATE journal SET inputs = replace(inputs, '\"active\"', '\"lost\"')", REPEATABLE),
    ("UPDATE journal SET decision = replace(decision, ',', ', ')", REPEATABLE),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def books(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """A database with a short true history: each kind of outcome once."""
    name = "stanchion_test_audit"
    execute(postgres_server.admin_url, f"CREATE DATABASE {name} TEMPLATE {postgres_server.template}")
    url = postgres_server.database(name)
    settings = with_local_egress(
        Settings.load(var_dir=tmp_path_factory.mktemp("audit"), database_url=url, iso8583_port=free_port())
    )
    async with installation(settings, Vault.from_settings(settings)) as running:
        caller = await running.caller()
        card = await caller.funded_card("100.00", controls=[{"kind": "mcc_deny", "values": ["7995"]}])
        await caller.spend(card, "42.50")
        await caller.spend(card, "60.00", scenario="partial_approval")
        await caller.spend(card, "5.00", mcc="7995")
        await caller.spend(card, "5.00", kind="refund")
        await caller.spend(card, "0.00")
        await caller.patch(f"/v1/programs/{card['programme_id']}", {"name": "Renamed"})
        await passed_check(caller, {"id": card["cardholder_id"]})
        await begin(caller, "basic", {"id": card["cardholder_id"]})
        await live(running, await caller.funded_card("1000.00"))
        await live(running, await gateway_card(running, caller))
        await outages(running, caller)
    yield url
    execute(postgres_server.admin_url, f"DROP DATABASE {name} WITH (FORCE)")


def broken(found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.broken]


async def gateway_card(running: Installation, caller: Caller) -> Any:
    """A card of a programme that keeps its own ledger."""
    async with running.variant(enable_gateway=True) as http:
        elsewhere = Caller(http, caller.credentials)
        await elsewhere.authenticate()
        programme = await elsewhere.programme(mode="gateway")
    return await caller.card(await caller.product(programme), await caller.cardholder(programme))


async def live(running: Installation, card: Any) -> None:
    """Everything that a network can say about a sale afterwards, over the wire."""
    connection = await asyncpg.connect(running.services.settings.database_dsn)
    sealed = await connection.fetchval("SELECT sealed FROM pans WHERE card_id = $1", card["id"])
    await connection.close()
    custody = CardCustody(running.services.vault)
    plastic = {
        "pan": "".join(custody.open(card["id"], sealed)),
        "expiry": f"{card['exp_year'] % 100:02d}{card['exp_month']:02d}",
    }
    address = {"host": "127.0.0.1", "port": running.services.settings.iso8583_port}
    async with Acquirer(address) as acquirer:

        async def say(document: Document) -> Document:
            assert (await acquirer.ask(document))["39"] in {"00", "51"}
            return document

        sale = await say(purchase(plastic, "50.00"))
        await say(later("0100", sale, "5.00", de48=private(t06="INC")))
        await say(later("0220", sale, "20.00", de48=private(t09="0")))
        await say(later("0420", sale, de95=f"{1000:012d}{0:012d}D{0:08d}D{0:08d}"))
        await say(later("0220", sale, "12.00"))
        await say(later("0400", await say(purchase(plastic, "30.00"))))
        refund = await say(purchase(plastic, "7.00", de3="200000"))
        await say(later("0420", refund))
        late = purchase(plastic, "9.00")
        await say(later("0420", late))
        await say(late)
        await say(later("0120", await say(purchase(plastic, "2000.00")), "2000.00", de39="00", de38="ABC123"))
        unknown = purchase(plastic, "3.00")
        await say(unknown | {"t": "0120", "39": "00", "38": "ABC123"})
        await say(purchase(plastic, "4.00") | {"t": "0220"})


async def outages(running: Installation, caller: Caller) -> None:
    """An outage that has ended, with a budget in each of two currencies, and one that has not."""
    async with decision_endpoint(running.services.settings.var_dir) as endpoint:
        card = await delegated_card(caller, policy(), url=endpoint.url, timeout_ms=3_000)
        endpoint.behave = hang_up
        sale = await caller.spend(card, "20.00")
        path = f"/v1/simulated-spends/{sale['simulation_id']}/increment"
        child = await caller.post(path, {"raise_by_amount": money("5.00")}, 202)
        assert (await caller.simulation(child["simulation_id"]))["response_code"] == "00"
        await caller.spend(card, "60.00")
        await put_policy(caller, card["programme_id"], policy(max_total_exposure=money("1.00", "USD")))
        await caller.spend(card, "1.00")
        await put_policy(caller, card["programme_id"], policy())
        await caller.spend(card, "10.00")
        endpoint.behave = approve
        finished = "/v1/events?types=authorization.stip_outage.finished"
        while not (await caller.get(finished))["data"]:
            assert (await caller.spend(card, "1.00"))["decision"] == "approved"
        await declare(caller, card, "30.00")
        endpoint.behave = hang_up
        await caller.spend(card, "7.00")


def run_command(url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ops", "audit", "--var", "/nonexistent"],
        cwd=ROOT,
        env={"STANCHION_DATABASE_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.asyncio(loop_scope="module")
async def test_a_true_history_keeps_every_promise(books: str) -> None:
    found = await audit(books)
    assert not broken(found)
    assert all(finding.subjects for finding in found)
    done = run_command(books)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:-1] == [str(finding) for finding in found]
    assert lines[-1] == f"All {len(found)} promises hold."


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("damage", "promise"), DAMAGES)
async def test_damage_is_found(books: str, damage: str, promise: str) -> None:
    connection = await asyncpg.connect(books)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("ALTER TABLE ledger_entries DISABLE TRIGGER USER")
        await connection.execute(damage)
        found = broken(await findings(connection))
        await transaction.rollback()
    finally:
        await connection.close()
    assert any(finding.promise.startswith(promise) for finding in found), found
    assert all(finding.examples for finding in found)


async def test_the_command_fails_on_broken_books(database_url: str) -> None:
    execute(database_url, "DELETE FROM shards WHERE shard = 0")
    done = run_command(database_url)
    assert done.returncode == 1
    assert "the id space has 256 shards: BROKEN for 1 of 1: shards\n" in done.stdout
    assert done.stderr == f"stanchion: 1 of {len(await audit(database_url))} promises are broken\n"


async def test_a_database_without_our_tables_is_one_line(database_url: str) -> None:
    execute(database_url, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    with pytest.raises(AuditError, match=r'^the database cannot be read: relation "\w+" does not exist$'):
        await audit(database_url)
    with pytest.raises(AuditError, match=r"^the database cannot be reached: "):
        await audit("postgresql://u:hidden@127.0.0.1:1/x")
