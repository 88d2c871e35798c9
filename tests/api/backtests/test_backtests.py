"""Back-tests over the API: figures, flips, limits, cancellation, and servers or tasks that end."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from actors.backtests import store, work
from actors.tasks import LocalTasks, TaskFailedError
from api.backtests import download, leading
from api.backtests.leading import BacktestLeader, lead, take
from engine.limits import BACKTEST_ATTEMPTS_MAX, BACKTEST_KEEP_DAYS, BACKTESTS_OPEN_MAX
from tests.support.actors.journal.in_full import STORE_IN_FULL
from tests.support.actors.outbox.waiting import eventually
from tests.support.api.authorization_rules import GAMBLING, RULES, rule_of
from tests.support.api.backtests import lead_next
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

NO_GAMBLING = {"controls": {"add": [{"kind": "mcc_deny", "values": ["7995"]}]}}
NO_BETS = {"name": "No bets", "when": [GAMBLING], "reason": "no_bets"}
"""The body of a rule."""


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def _no_open_backtests(running: Installation) -> Any:
    """Back-tests of other tests do not wait in this test's queue."""
    await running.services.pool.execute("DELETE FROM backtests")


def plan(card: Any, change: Any, scope: str = "programme", **fields: Any) -> dict[str, Any]:
    """A request: from a day ago to a day ahead."""
    now = datetime.now(UTC)
    begin, end = ((now + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ") for days in (-1, 1))
    ids = {"programme": card["programme_id"], "card_product": card["card_product_id"], "card": card["id"]}
    return {"scope": {"type": scope, "id": ids[scope]}, "from": begin, "to": end, "change": change} | fields


async def ran(running: Installation, caller: Caller, body: Any) -> Any:
    """A back-test that has ended."""
    created = await caller.post("/v1/backtests", body, 202)
    assert (created["state"], created["progress"]) == ("queued", {"cards_done": 0, "cards": None})
    assert created["before"] is created["flips"] is created["started_at"] is None
    await lead_next(running)
    return await caller.get(f"/v1/backtests/{created['id']}")


async def flips_of(caller: Caller, backtest: Any, query: str = "") -> list[Any]:
    found: list[Any] = (await caller.get(f"/v1/backtests/{backtest['id']}/flips?limit=100{query}"))["data"]
    return found


def counts(backtest: Any) -> dict[str, tuple[int, str]]:
    """Count and amount of the flips."""
    return {name: (part["count"], part["amount"]) for name, part in backtest["flips"].items()}


async def test_decline_frees_money_for_a_later_purchase(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    bet = await acme.spend(card, "80.00", mcc="7995")
    food = await acme.spend(card, "50.00")
    assert (bet["decision"], food["decision"]) == ("approved", "declined")
    done = await ran(running, acme, plan(card, NO_GAMBLING))
    assert (done["state"], done["failure"]) == ("done", None), done
    assert done["progress"] == {"cards_done": 1, "cards": 1}
    assert done["baseline"] == {"decisions": 2, "mismatches": 0, "examples": [], "cards_left_out": 0}
    side = {"decisions": 2, "approved": 1, "declined": 1, "not_sent": 0}
    assert done["before"] == side | {"approved_amount": "80.00"}
    assert done["after"] == side | {"approved_amount": "50.00"}
    assert counts(done) == {"approved_to_declined": (1, "80.00"), "declined_to_approved": (1, "50.00")}
    assert [row["rule"] for row in done["by_rule"]] == ["funds", "mcc_deny"]
    assert [row["mcc"] for row in done["by_mcc"]] == ["5411", "7995"]
    assert [row["approved_to_declined"]["count"] for row in done["by_day"]] == [1]
    assert (done["currency"], done["change"]) == ("EUR", NO_GAMBLING)
    gained, lost = await flips_of(acme, done)
    assert (lost["id"], gained["id"]) == (bet["transaction_id"], food["transaction_id"])
    assert (lost["before"]["decision"], lost["after"]["decline_reason"]) == ("approved", "mcc_not_allowed")
    assert lost["after"]["trace"][-1] == {
        "rule": "mcc_deny",
        "outcome": "fail",
        "observed": "7995",
        "limit": None,
    }
    assert gained["before"]["trace"][-1]["observed"] == "20.00"
    assert (gained["direction"], gained["after"]["approved_amount"]) == ("declined_to_approved", "50.00")
    recorded = await acme.get(f"/v1/transactions/{bet['transaction_id']}")
    assert lost["before"]["trace"] == recorded["trace"]


async def test_assumption_decides_about_the_money_of_a_newly_approved_purchase(
    running: Installation, acme: Caller
) -> None:
    card = await acme.funded_card("100.00", controls=[{"kind": "per_txn_cap", "amount": "50.00"}])
    big = await acme.spend(card, "80.00")
    change = {"controls": {"remove": ["per_txn_cap"]}}
    for assumed in (True, False):
        done = await ran(running, acme, plan(card, change, assume_presented=assumed))
        assert done["assume_presented"] is assumed
        [flip] = await flips_of(acme, done, "&direction=declined_to_approved")
        assert (flip["id"], flip["rule"]) == (big["transaction_id"], "per_txn_cap")
        assert await flips_of(acme, done, "&direction=approved_to_declined") == []


async def test_cards_that_share_an_account_are_lived_together(running: Installation, acme: Caller) -> None:
    """The change applies to one card; the other one spends the money."""
    card = await acme.funded_card("100.00")
    product, holder = {"id": card["card_product_id"]}, {"id": card["cardholder_id"]}
    other = await acme.card(product, holder, funding_account_id=card["funding_account_id"])
    bet = await acme.spend(card, "80.00", mcc="7995")
    food = await acme.spend(other, "50.00")
    replaced = await acme.post(f"/v1/cards/{card['id']}/replace", {"reason": "damaged"})
    await acme.spend(replaced, "1.00")
    done = await ran(running, acme, plan(card, NO_GAMBLING, "card"))
    assert (done["state"], done["progress"], done["baseline"]["decisions"]) == (
        "done",
        {"cards_done": 1, "cards": 1},
        3,
    )
    assert {flip["id"] for flip in await flips_of(acme, done)} == {
        bet["transaction_id"],
        food["transaction_id"],
    }
    done = await ran(running, acme, plan(other, NO_GAMBLING, "card"))
    assert counts(done)["approved_to_declined"] == (0, "0.00")
    done = await ran(running, acme, plan(card, NO_GAMBLING, "card_product"))
    assert (done["progress"]["cards"], done["baseline"]["decisions"]) == (3, 3)


async def test_unfunded_card_and_its_replacement_are_lived_together(
    running: Installation, acme: Caller
) -> None:
    async with running.variant(enable_gateway=True) as http:
        elsewhere = Caller(http, acme.credentials)
        await elsewhere.authenticate()
        programme = await elsewhere.programme(mode="gateway")
    card = await acme.card(await acme.product(programme), await acme.cardholder(programme))
    await acme.spend(card, "10.00")
    new = await acme.post(f"/v1/cards/{card['id']}/replace", {"reason": "damaged"})
    second = await acme.spend(new, "10.00")
    change = {"controls": {"add": [{"kind": "per_day_cap", "count": 1}]}}
    done = await ran(running, acme, plan(card, change))
    assert [flip["id"] for flip in await flips_of(acme, done)] == [second["transaction_id"]]


async def test_csv_has_all_flips(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.backtests.download.ROWS", 2)
    monkeypatch.setattr("api.backtests.download._PAGE", download._PAGE.replace("LIMIT 500", "LIMIT 2"))
    card = await acme.funded_card("100.00")
    for _ in range(3):
        await acme.spend(card, "1.00", mcc="7995")
    done = await ran(running, acme, plan(card, NO_GAMBLING))
    answer = await acme.send("GET", f"/v1/backtests/{done['id']}/flips.csv")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    flips = await flips_of(acme, done)
    assert [row["id"] for row in rows] == [flip["id"] for flip in flips]
    assert [row["after_reason"] for row in rows] == ["mcc_not_allowed"] * 3
    assert [json.loads(row["before_trace"]) for row in rows] == [flip["before"]["trace"] for flip in flips]
    page = await acme.get(f"/v1/backtests/{done['id']}/flips?limit=2")
    assert page["has_more"]
    rest = await acme.get(f"/v1/backtests/{done['id']}/flips?limit=2&starting_after={page['next_cursor']}")
    assert [each["id"] for each in page["data"] + rest["data"]] == [flip["id"] for flip in flips]


async def test_cancelled_backtest_does_no_more(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelled in the middle of a range: the task ends at its next step, and the server leaves it."""
    monkeypatch.setattr(work, "KEEP_SECONDS", 0.0)
    monkeypatch.setattr(leading, "KEEP_SECONDS", 0.01)
    card = await acme.funded_card("100.00")
    await acme.spend(card, "1.00", mcc="7995")
    created = await acme.post("/v1/backtests", plan(card, NO_GAMBLING), 202)
    reached, go_on = asyncio.Event(), asyncio.Event()
    keep = store.BacktestStore.keep

    async def held(self: Any, *given: Any) -> None:
        reached.set()
        await go_on.wait()
        await keep(self, *given)

    monkeypatch.setattr(store.BacktestStore, "keep", held)
    led = asyncio.create_task(lead_next(running))
    await reached.wait()
    path = f"/v1/backtests/{created['id']}"
    cancelled = (await acme.send("DELETE", path)).json()
    assert (cancelled["state"], cancelled["completed_at"] is None) == ("cancelled", False)
    go_on.set()
    await led
    found = await acme.get(path)
    assert (found["state"], found["progress"], found["flips"]) == (
        "cancelled",
        {"cards_done": 0, "cards": 1},
        None,
    )
    assert await flips_of(acme, found) == []
    assert (await acme.send("DELETE", path)).json() == found
    assert await take(running.services) is None


async def test_ended_backtest_cannot_be_cancelled(running: Installation, acme: Caller) -> None:
    done = await ran(running, acme, plan(await acme.funded_card("1.00"), NO_GAMBLING))
    refused = await acme.send("DELETE", f"/v1/backtests/{done['id']}")
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/invalid-state-transition")


async def test_another_server_goes_on_with_the_ranges_that_are_left(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first server ends after one of two ranges; its task has lost the second one."""
    monkeypatch.setattr(leading, "BACKTEST_RANGE_CARDS", 1)
    card = await acme.funded_card("100.00")
    product, holder = {"id": card["card_product_id"]}, {"id": card["cardholder_id"]}
    other = await acme.card(product, holder)
    await acme.load(other, "10.00")
    for each in (card, other):
        await acme.spend(each, "1.00", mcc="7995")
    created = await acme.post("/v1/backtests", plan(card, NO_GAMBLING), 202)
    reached, go_on = asyncio.Event(), asyncio.Event()
    complete = store.BacktestStore.complete

    async def held(self: Any, claimed: Any, tally: Any) -> None:
        if claimed.number == 2:
            reached.set()
            await go_on.wait()
        await complete(self, claimed, tally)

    with monkeypatch.context() as slow:
        slow.setattr(store.BacktestStore, "complete", held)
        first = asyncio.create_task(lead_next(running))
        await reached.wait()
    path = f"/v1/backtests/{created['id']}"
    assert (await acme.get(path))["progress"] == {"cards_done": 1, "cards": 2}
    assert await take(running.services) is None, "its lease has not ended"
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    pool = running.services.pool
    await pool.execute("UPDATE backtests SET lease_until = now() - interval '1 second'")
    await pool.execute(
        "UPDATE backtest_ranges SET lease_until = now() - interval '1 second' WHERE number = 2"
    )
    await lead_next(running)
    done = await acme.get(path)
    assert (done["state"], done["progress"]) == ("done", {"cards_done": 2, "cards": 2})
    assert counts(done)["approved_to_declined"] == (2, "2.00")
    assert len(await flips_of(acme, done)) == 2
    attempts = "SELECT array_agg(attempt ORDER BY number) FROM backtest_ranges WHERE backtest_id = $1::uuid"
    assert await pool.fetchval(attempts, done["id"]) == [1, 2]


async def test_range_that_fails_again_and_again_ends_the_backtest(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leading, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(store, "BACKTEST_LEASE_SECONDS", 0)
    runs = []

    class FailingTasks(LocalTasks):
        async def run(self, function: str, payload: bytes) -> bytes:
            connection = store.open_connection(self._settings.database_dsn)
            runs.append(await store.BacktestStore(connection, json.loads(payload)["backtest_id"]).claim())
            connection.close()
            raise TaskFailedError("OutOfMemoryError")

    card = await acme.funded_card("1.00")
    created = await acme.post("/v1/backtests", plan(card, NO_GAMBLING), 202)
    taken = await take(running.services)
    assert taken is not None
    await lead(running.services, FailingTasks(running.services.settings), taken)
    found = await acme.get(f"/v1/backtests/{created['id']}")
    assert (found["state"], found["failure"], found["flips"]) == ("failed", "interrupted", None)
    assert [each.attempt for each in runs if each] == list(range(1, BACKTEST_ATTEMPTS_MAX + 1))


async def test_decision_that_is_not_reproduced_fails_the_backtest(
    running: Installation, acme: Caller
) -> None:
    card = await acme.funded_card("100.00")
    sale = await acme.spend(card, "1.00")
    pool = running.services.pool
    damage = """UPDATE journal_rows SET decision = replace(decision, '"risk_score":0', '"risk_score":7')
        WHERE actor_id = $1::uuid AND kind = 'authorize'"""
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(STORE_IN_FULL)
        await connection.execute(damage, card["id"])
    done = await ran(running, acme, plan(card, NO_GAMBLING))
    assert (done["state"], done["failure"]) == ("failed", "baseline_mismatch")
    assert done["baseline"] == {
        "decisions": 0,
        "mismatches": 1,
        "examples": [sale["transaction_id"]],
        "cards_left_out": 0,
    }


async def test_long_history_is_read_in_slices_and_a_longer_one_left_out(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.backtests.reading.BACKTEST_ROWS_READ", 1)
    monkeypatch.setattr("actors.backtests.reading.ROWS_OF_CARD_MIN", 2)
    card = await acme.funded_card("100.00")
    for _ in range(5):
        await acme.spend(card, "1.00", mcc="7995")
    done = await ran(running, acme, plan(card, NO_GAMBLING))
    assert (done["baseline"]["decisions"], counts(done)["approved_to_declined"]) == (5, (5, "5.00"))
    monkeypatch.setattr(work, "BACKTEST_ROWS_MAX", 3)
    done = await ran(running, acme, plan(card, NO_GAMBLING))
    assert done["baseline"] == {"decisions": 0, "mismatches": 0, "examples": [], "cards_left_out": 1}


async def test_flips_beyond_the_limit_are_counted_only(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "BACKTEST_FLIPS_STORED_MAX", 2)
    card = await acme.funded_card("100.00")
    for _ in range(3):
        await acme.spend(card, "1.00", mcc="7995")
    done = await ran(running, acme, plan(card, NO_GAMBLING))
    assert (counts(done)["approved_to_declined"], len(await flips_of(acme, done))) == ((3, "3.00"), 2)


async def test_only_four_can_be_open(running: Installation, acme: Caller, tenant: str) -> None:
    card = await acme.funded_card("1.00")
    for _ in range(BACKTESTS_OPEN_MAX):
        await acme.post("/v1/backtests", plan(card, NO_GAMBLING), 202)
    refused = await acme.post("/v1/backtests", plan(card, NO_GAMBLING), 409)
    assert refused["type"] == "/problems/too-many-backtests"
    other = await running.caller(f"{tenant}-other")
    await other.post("/v1/backtests", plan(await other.funded_card("1.00"), NO_GAMBLING), 202)
    oldest = (await acme.get("/v1/backtests"))["data"][-1]
    assert (await acme.send("DELETE", f"/v1/backtests/{oldest['id']}")).status_code == 200
    await acme.post("/v1/backtests", plan(card, NO_GAMBLING), 202)


async def _is_done(caller: Caller, backtest_id: str) -> bool:
    return bool((await caller.get(f"/v1/backtests/{backtest_id}"))["state"] == "done")


async def test_leader_takes_backtests_by_itself(running: Installation, acme: Caller) -> None:
    created = await acme.post("/v1/backtests", plan(await acme.funded_card("1.00"), NO_GAMBLING), 202)
    leader = BacktestLeader(running.services, LocalTasks(running.services.settings))
    leader.start()
    await eventually(lambda: _is_done(acme, created["id"]))
    await leader.stop()
    await leader.stop()


async def test_expired_backtest_is_deleted(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("10.00")
    await acme.spend(card, "1.00", mcc="7995")
    done = await ran(running, acme, plan(card, NO_GAMBLING))
    age = f"interval '{BACKTEST_KEEP_DAYS} days 1 second'"
    await running.services.pool.execute(f"UPDATE backtests SET created_at = created_at - {age}")
    assert await take(running.services) is None
    await acme.get(f"/v1/backtests/{done['id']}", 404)
    assert await running.services.pool.fetchval("SELECT count(*) FROM backtest_flips") == 0


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"scope": {"type": "tenant", "id": "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e"}}, "/scope/type"),
        ({"from": "2026-01-01"}, "/from"),
        ({"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}, "/to"),
        ({"from": "2026-01-01T00:00:00Z", "to": "2026-04-03T00:00:01Z"}, "/to"),
        ({"change": {}}, "/change"),
        ({"change": {"controls": {}}}, "/change/controls"),
        ({"change": {"controls": {"remove": ["funds"]}}}, "/change/controls/remove/0"),
        (
            {"change": {"controls": {"add": [{"kind": "per_txn_cap", "amount": "x"}]}}},
            "/change/controls/add/0/amount",
        ),
        ({"change": {"add_rules": ["019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e"]}}, "/change/add_rules/0"),
        ({"change": {"add_rules": [7]}}, "/change/add_rules/0"),
        ({"change": {"add_rules": [NO_BETS, {}]}}, "/change/add_rules/1/name"),
        ({"change": {"add_rules": [NO_BETS | {"reason": "No!"}]}}, "/change/add_rules/0/reason"),
        ({"change": {"add_rules": [NO_BETS | {"state": "retired"}]}}, "/change/add_rules/0/state"),
        ({"change": {"add_rules": [NO_BETS | {"id": "x"}]}}, "/change/add_rules/0/id"),
        ({"change": {"add_rules": [NO_BETS | {"when": []}]}}, "/change/add_rules/0/when"),
        (
            {"change": {"add_rules": [NO_BETS | {"when": [GAMBLING, GAMBLING | {"value": "x"}]}]}},
            "/change/add_rules/0/when/1/value",
        ),
        (
            {"change": {"add_rules": [NO_BETS | {"scope": {"type": "card"}}]}},
            "/change/add_rules/0/scope/id",
        ),
        (
            {"change": {"add_rules": [NO_BETS, rule_of("card", "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e")]}},
            "/change/add_rules/1/scope",
        ),
        ({"change": {"remove_rules": ["x"]}}, "/change/remove_rules/0"),
        ({"assume_presented": "yes"}, "/assume_presented"),
    ],
)
async def test_invalid_request_names_the_member(acme: Caller, change: Any, pointer: str) -> None:
    card = dict.fromkeys(("id", "programme_id", "card_product_id"), "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e")
    refused = await acme.post("/v1/backtests", plan(card, NO_GAMBLING) | change, 400)
    assert refused["errors"][0]["pointer"] == pointer


async def test_unknown_scope_and_rules_are_not_found(
    running: Installation, acme: Caller, tenant: str
) -> None:
    other = await running.caller(f"{tenant}-other")
    card, foreign = await acme.funded_card("1.00"), await other.funded_card("1.00")
    for scope in ("programme", "card_product", "card"):
        refused = await acme.post("/v1/backtests", plan(foreign, NO_GAMBLING, scope), 404)
        assert refused["errors"][0]["pointer"] == "/scope/id"
    change = {"add_rules": [NO_BETS, f"{card['id']}@1"], "remove_rules": [card["id"]]}
    refused = await acme.post("/v1/backtests", plan(card, change), 404)
    pointers = [error["pointer"] for error in refused["errors"]]
    assert pointers == ["/change/add_rules/1", "/change/remove_rules/0"]


@pytest.mark.parametrize("scope", ["programme", "card_product", "card"])
async def test_rule_is_tried_without_being_created(running: Installation, acme: Caller, scope: str) -> None:
    """The body of ``POST /v1/authorization-rules``, and one without a scope that counts velocities."""
    card = await acme.funded_card("100.00")
    food = [await acme.spend(card, "1.00") for _ in range(3)]
    bet = await acme.spend(card, "1.00", mcc="7995")
    request = plan(card, {}, scope)
    velocity = {"attribute": "velocity", "measure": "count", "window": "day", "op": "gt", "value": 2}
    often = NO_BETS | {"name": "Two a day", "when": [velocity], "reason": "two_a_day"}
    change = {"add_rules": [rule_of(scope, request["scope"]["id"], state="shadow"), often]}
    done = await ran(running, acme, request | {"change": change})
    assert (done["state"], done["failure"], done["change"]) == ("done", None, change)
    flips = {
        flip["id"]: (flip["rule"], flip["after"]["decline_detail"]) for flip in await flips_of(acme, done)
    }
    assert flips == {
        food[2]["transaction_id"]: ("rule:add_rules/1@1", "two_a_day"),
        bet["transaction_id"]: ("rule:add_rules/0@1", "no_gambling"),
    }
    assert sorted(row["rule"] for row in done["by_rule"]) == ["rule:add_rules/0@1", "rule:add_rules/1@1"]
    assert (await acme.get(RULES))["data"] == []


async def test_rules_by_version_and_by_body_are_tried_together(running: Installation, acme: Caller) -> None:
    """The draft is in force in addition to the body that stands before it."""
    card = await acme.funded_card("100.00")
    above = {"attribute": "amount", "op": "gt", "value": "50.00"}
    draft = await acme.post(RULES, rule_of("programme", card["programme_id"], when=[above]))
    bet, big = await acme.spend(card, "1.00", mcc="7995"), await acme.spend(card, "60.00")
    done = await ran(running, acme, plan(card, {"add_rules": [NO_BETS, f"{draft['id']}@1"]}))
    flips = {flip["id"]: flip["rule"] for flip in await flips_of(acme, done)}
    assert flips == {
        bet["transaction_id"]: "rule:add_rules/0@1",
        big["transaction_id"]: f"rule:{draft['id']}@1",
    }
