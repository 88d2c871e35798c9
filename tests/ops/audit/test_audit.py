"""The audit of the books: it accepts a correct history and finds every kind of damage."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from actors.network.card_secrets import CardSecrets
from actors.settings import Settings
from actors.vault import Vault
from engine.commands import reference_of_message
from engine.ids import shard_of
from ops.audit import AuditError, Finding, audit, findings
from ops.embedded.local_https import Request, server_side, with_local_egress
from ops.embedded.ports import free_port
from tests.actors.shards.test_on_postgres import furnish, running
from tests.conftest import PostgresServer, execute
from tests.support.actors.journal.in_full import STORE_IN_FULL
from tests.support.actors.outbox.waiting import eventually
from tests.support.actors.shards.support import ADMIN, FIRST
from tests.support.actors.webhooks.receivers import Receiver, receiving
from tests.support.api.delegation import declare, delegated_card, money, policy, put_policy
from tests.support.api.driver import Caller
from tests.support.api.kyc.applicants import begin, passed_check
from tests.support.api.stack import Installation, installation
from tests.support.api.vision.applicant import vision_host
from tests.support.api.vision.holder import show
from tests.support.conformance.decision_endpoint import approve, decision_endpoint, hang_up
from tests.support.conformance.peer import Document
from tests.support.engine.build import authorize, create_card, load
from tests.support.engine.rules import change_rule, condition, create_rule, velocity
from tests.support.integration.acquirer import Acquirer, follow_up, private_tags, purchase
from tests.support.ops.audit.damages import DAMAGES

ROOT = Path(__file__).parents[3]
ALL_ATTEMPTED = """
    SELECT NOT EXISTS (SELECT FROM events e, relay_progress p WHERE e.txid >= p.txid)
        AND NOT EXISTS (SELECT FROM deliveries WHERE id NOT IN (SELECT delivery_id FROM delivery_attempts))"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def books(
    postgres_server: PostgresServer, redis_server: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """A database with a short correct history that has each outcome once."""
    name = "stanchion_test_audit"
    postgres_server.create(name)
    url = postgres_server.database(name)
    settings = with_local_egress(
        Settings.load(
            var_dir=tmp_path_factory.mktemp("audit"),
            database_url=url,
            redis_url=redis_server,
            iso8583_port=free_port(),
        )
    )
    async with (
        installation(settings, Vault.from_settings(settings), webhooks=True) as running,
        receiving(server_side(settings.var_dir), Receiver(by_its_path), settings.var_dir) as receiver,
    ):
        caller = await running.caller()
        await endpoints(caller, receiver, url)
        card = await caller.funded_card("100.00", controls=[{"kind": "mcc_deny", "values": ["7995"]}])
        await transfers(caller, card)
        await caller.spend(card, "42.50")
        await caller.spend(card, "60.00", scenario="partial_approval")
        await caller.spend(card, "5.00", mcc="7995")
        await caller.spend(card, "5.00", kind="refund")
        await caller.spend(card, "0.00")
        await caller.spend(await caller.funded_card("1.00"), "3.00", scenario="force_stip_timeout")
        await caller.patch(f"/v1/programs/{card['programme_id']}", {"name": "Renamed"})
        await passed_check(caller, {"id": card["cardholder_id"]})
        await begin(caller, "basic", {"id": card["cardholder_id"]})
        await live(running, await caller.funded_card("1000.00"))
        await live(running, await gateway_card(running, caller))
        await replacements(running, caller)
        await outages(running, caller)
        await eventually(lambda: running.services.pool.fetchval(ALL_ATTEMPTED))
    yield url
    postgres_server.drop(name)


def broken(found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.broken]


def by_its_path(request: Request) -> int:
    return 500 if request.path.endswith("/broken") else 200


async def endpoints(caller: Caller, receiver: Receiver, url: str) -> None:
    """One endpoint that answers 200, one that answers 500, and a disabled one; unchanged for an hour."""
    for path in ("sound", "broken", "disabled"):
        body = {"url": f"{receiver.url}/{path}", "event_types": ["*"]}
        endpoint = await caller.post("/v1/webhook-endpoints", body)
    await caller.patch(f"/v1/webhook-endpoints/{endpoint['id']}", {"status": "disabled"})
    execute(url, "UPDATE webhook_endpoints SET updated_at = updated_at - interval '1 hour'")


async def transfers(caller: Caller, card: Any) -> None:
    """A fee, and a payment that was reversed."""
    body = {"account_id": card["funding_account_id"], "direction": "debit", "amount": money("1.00")}
    await caller.post("/v1/transfers", body | {"kind": "fee"})
    credit = body | {"direction": "credit", "amount": money("2.00"), "kind": "adjustment"}
    paid = await caller.post("/v1/transfers", credit)
    await caller.post(f"/v1/transfers/{paid['id']}/reverse", {}, 200)
    await caller.post("/v1/transfers", credit | {"amount": money("1.00")})


async def gateway_card(running: Installation, caller: Caller) -> Any:
    """A card of a programme with its own ledger."""
    async with running.variant(enable_gateway=True) as http:
        elsewhere = Caller(http, caller.credentials)
        await elsewhere.authenticate()
        programme = await elsewhere.programme(mode="gateway")
    return await caller.card(await caller.product(programme), await caller.cardholder(programme))


async def live(running: Installation, card: Any) -> None:
    """Every follow-up message of a sale, over the wire."""
    connection = await asyncpg.connect(running.services.settings.database_dsn)
    sealed = await connection.fetchval("SELECT sealed FROM pans WHERE card_id = $1", card["id"])
    await connection.close()
    card_secrets = CardSecrets(running.services.vault)
    plastic = {
        "pan": "".join(card_secrets.open(card["id"], sealed)),
        "expiry": f"{card['exp_year'] % 100:02d}{card['exp_month']:02d}",
    }
    address = {"host": "127.0.0.1", "port": running.services.settings.iso8583_port}
    async with Acquirer(address) as acquirer:

        async def say(document: Document) -> Document:
            assert (await acquirer.exchange(document))["39"] in {"00", "51"}
            return document

        sale = await say(purchase(plastic, "50.00"))
        await say(follow_up("0100", sale, "5.00", de48=private_tags(t06="INC")))
        await say(follow_up("0220", sale, "20.00", de48=private_tags(t09="0")))
        await say(follow_up("0420", sale, de95=f"{1000:012d}{0:012d}D{0:08d}D{0:08d}"))
        await say(follow_up("0220", sale, "12.00"))
        await say(follow_up("0400", await say(purchase(plastic, "30.00"))))
        refund = await say(purchase(plastic, "7.00", de3="200000"))
        await say(follow_up("0420", refund))
        late = purchase(plastic, "9.00")
        await say(follow_up("0420", late))
        await say(late)
        await say(
            follow_up("0120", await say(purchase(plastic, "2000.00")), "2000.00", de39="00", de38="ABC123")
        )
        unknown = purchase(plastic, "3.00")
        await say(unknown | {"t": "0120", "39": "00", "38": "ABC123"})
        for sequence in ("01", "02"):
            tags = private_tags(t08=f"{int(refund['11']):023d}{sequence}")
            await say(follow_up("0220", refund, "6.00", de3="200000", de48=tags))
        await say(purchase(plastic, "1.00"))
        await say(purchase(plastic, "4.00") | {"t": "0220"})


async def replacements(running: Installation, caller: Caller) -> None:
    """A funded and an unfunded card, each replaced between two spends; the replacement is shown once."""
    funded = await caller.funded_card("100.00")
    programme = await caller.get(f"/v1/programs/{funded['programme_id']}")
    product = await caller.product(programme)
    holder = {"id": funded["cardholder_id"]}
    unfunded = await caller.card(product, holder, funding_account_id=None)
    for card in (funded, unfunded):
        await declare(caller, card, "30.00")
        await caller.spend(card, "5.00")
        new = await caller.post(f"/v1/cards/{card['id']}/replace", {"reason": "damaged"})
        await caller.spend(new, "6.00")
        revealing = await running.caller(scopes=("cards:reveal",))
        session = await revealing.post(f"/v1/cards/{new['id']}/reveal-sessions")
    async with vision_host(running) as http:
        await show(http, session["url"])
        await show(http, session["url"])


async def outages(running: Installation, caller: Caller) -> None:
    """An ended outage, with a budget in each of two currencies, and an open one."""
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
async def test_a_correct_history_keeps_every_promise(books: str) -> None:
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
        await connection.execute("SET LOCAL session_replication_role = replica")
        if "_rows" in damage:
            await connection.execute(STORE_IN_FULL)
        await connection.execute(damage)
        found = broken(await findings(connection))
        await transaction.rollback()
    finally:
        await connection.close()
    assert any(finding.promise.startswith(promise) for finding in found), found
    assert all(finding.examples for finding in found)


@pytest.mark.asyncio(loop_scope="module")
async def test_declines_stored_without_their_reason_are_correct(books: str) -> None:
    connection = await asyncpg.connect(books)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(STORE_IN_FULL)
        changed = await connection.execute(
            "UPDATE journal_rows SET reply = regexp_replace(reply, ',\"reason\":\"\\w+\"', '') "
            "WHERE reply LIKE '%,\"reason\":%'"
        )
        found = broken(await findings(connection))
        await transaction.rollback()
    finally:
        await connection.close()
    assert changed not in ("UPDATE 0", "UPDATE 1")
    assert not found


async def test_the_command_fails_on_broken_books(database_url: str) -> None:
    execute(database_url, "DELETE FROM shards WHERE shard = 0")
    done = run_command(database_url)
    assert done.returncode == 1
    assert "the id space has 256 shards: BROKEN for 1 of 1: shards\n" in done.stdout
    assert done.stderr == f"stanchion: 1 of {len(await audit(database_url))} promises are broken\n"


async def test_a_database_without_tables_is_one_line(database_url: str) -> None:
    execute(database_url, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    with pytest.raises(AuditError, match=r'^the database cannot be read: relation "\w+" does not exist$'):
        await audit(database_url)
    with pytest.raises(AuditError, match=r"^the database cannot be reached: "):
        await audit("postgresql://u:hidden@127.0.0.1:1/x")


async def test_decisions_with_rules_are_replayed_with_the_versions_of_their_rules(database_url: str) -> None:
    """Hosts alone: conditions, velocities, a new version, a shadow rule, an increment and a reversal."""
    async with running(database_url, "a") as host:
        await furnish(database_url, host)
        card = create_card(3, shard_of(FIRST.id), programme_id=ADMIN.id)
        await host.execute(card)
        await host.execute(load(950, card_id=card.id, amount_minor=100_000))
        await host.execute(
            create_rule(1, velocity("count", "P1D", "gt", 4), programme_id=ADMIN.id),
            create_rule(2, condition("amount", "gt", 500), programme_id=ADMIN.id, state="shadow"),
        )
        sale = authorize(1, card_id=card.id)
        raising = authorize(2, card_id=card.id, references=(reference_of_message(sale.command_key),))
        for command in (sale, raising, *(authorize(number, card_id=card.id) for number in range(3, 9))):
            await host.execute(command)
        await host.execute(change_rule(1, programme_id=ADMIN.id, when=(velocity("amount", "day", "gt", 1),)))
        await host.execute(authorize(20, card_id=card.id))
    session = await asyncpg.connect(database_url)
    try:
        replayed = await replays(session)
        assert [(finding.subjects > 2, finding.broken) for finding in replayed] == [(True, 0)] * 3
        await session.execute("ALTER TABLE authorization_rule_versions DISABLE TRIGGER ALL")
        await session.execute("DELETE FROM authorization_rule_versions WHERE version = 2")
        recomputed, answers, _ = await replays(session)
        # The fold takes the rules from the journals of the programme and the card.
        assert (recomputed.broken, answers.broken) == (1, 0)
    finally:
        await session.close()


async def replays(session: asyncpg.Connection[Any]) -> list[Finding]:
    """The findings about decisions and journals."""
    async with session.transaction(isolation="repeatable_read", readonly=True):
        return [
            found
            for found in await findings(session)
            if "replay" in found.promise or "recomputed" in found.promise
        ]
