"""Dry runs and headroom on hosts: they see tentative state, wait for its commit, and change nothing."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import msgspec
import pytest

from actors.journal.contract import RejectedError
from engine.commands import Evaluate, ReadHeadroom
from engine.controls import PerDayAmountCap
from engine.decision.delegation import EndpointResult
from engine.replies import Done, NotExecuted, Problem, Reply
from tests.support.actors.shards.support import (
    ADMIN,
    ALL_SHARDS,
    FIRST,
    PATIENCE_MS,
    SECOND,
    Cluster,
    TestHost,
    approved,
    furnish,
    idle,
    turns,
)
from tests.support.engine.build import (
    an_id,
    authorize,
    change_card,
    change_programme,
    declare_balance,
    evaluate,
    read_headroom,
    set_policy,
)
from tests.support.engine.rules import condition, create_rule, velocity

SILENT = EndpointResult(trigger="timeout")
PROGRAMME = ADMIN.id


def spend(number: int = 1, **parts: Any) -> Any:
    return authorize(number, **({"card_id": FIRST.id} | parts))


def dry(number: int = 1, *, stand_in: bool = False, card_id: str = FIRST.id, **parts: Any) -> Evaluate:
    request = authorize(number, card_id=card_id, **parts)
    return evaluate(number, card_id=card_id, request=request, stand_in=stand_in)


def room(number: int = 1, card_id: str = FIRST.id) -> ReadHeadroom:
    return read_headroom(number, card_id=card_id, request=authorize(number, card_id=card_id))


def body(reply: Reply) -> dict[str, Any]:
    assert isinstance(reply, Done), reply
    return reply.body


async def answer(host: TestHost, command: Evaluate | ReadHeadroom) -> dict[str, Any]:
    return body(await host.execute_one(command))


def stored(cluster: Cluster) -> dict[str, Any]:
    """All tables, byte for byte."""
    tables = {name: table.rows for name, table in vars(cluster.store).items() if hasattr(table, "rows")}
    assert {"journal", "events", "card_usage", "outages", "idempotency", "audit_log"} <= tables.keys()
    return copy.deepcopy(tables)


def in_memory(host: TestHost) -> dict[str, bytes]:
    """The cards and accounts of a host, and its programmes."""
    activation = host.host.activation
    cards = {id_: msgspec.msgpack.encode(actor.card) for id_, actor in activation.cards.items()}
    accounts = {id_: msgspec.msgpack.encode(each.account.holds) for id_, each in activation.accounts.items()}
    programmes = {id_: msgspec.msgpack.encode(each) for id_, each in activation.programmes.items()}
    return cards | accounts | programmes


@pytest.fixture
async def delegated(cluster: Cluster) -> TestHost:
    """One host with a delegated programme that stands in up to 100.00."""
    host = await cluster.add("a", ALL_SHARDS)
    await furnish(host, cents=100_000)
    changes = {"decisioning": "delegated", "decision_url": "https://decide.example"}
    replies = await host.execute(
        change_programme(1, programme_id=PROGRAMME, **changes),
        set_policy(1, programme_id=PROGRAMME),
        declare_balance(1, card_id=FIRST.id, amount_minor=8_000),
    )
    assert all(isinstance(reply, Done) for reply in replies), replies
    return host


async def test_reads_change_no_row_and_no_state(host: TestHost, cluster: Cluster) -> None:
    assert approved(await host.execute_one(spend(1)))
    before, memory, figures = stored(cluster), in_memory(host), host.host.counts.figures()
    for number in range(2, 6):
        shown = await answer(host, dry(number, amount_minor=9_000 + number))
        assert shown["decision"] == "declined"
        assert (await answer(host, room(number)))["max_amount"] == "90.00"
    assert (stored(cluster), in_memory(host)) == (before, memory)
    after = host.host.counts.figures()
    for name in ("stanchion_decisions", "stanchion_refusals", "stanchion_stand_ins"):
        assert after[name] == figures[name]
    assert all(
        not actor.undurable and not actor.pledged_minor for actor in host.host.activation.cards.values()
    )


async def test_reads_see_tentative_state_and_wait_for_its_commit(host: TestHost) -> None:
    hold = host.faults.hold("during", "commit")
    spending = host.submit(spend(1, amount_minor=6_000))
    await hold.reached.wait()
    reading = host.submit(room(1), dry(2, amount_minor=4_001), dry(3, amount_minor=4_000))
    await idle()
    assert not reading.done()
    hold.release()
    assert approved((await spending)[0])
    found, declined, accepted = map(body, await reading)
    assert found["max_amount"] == "40.00"
    assert (declined["decline_reason"], accepted["decision"]) == ("insufficient_funds", "approved")
    assert found["as_of"]["card_seq"] == declined["as_of"]["card_seq"]


async def test_read_after_a_failed_commit_does_not_show_the_lost_decision(host: TestHost) -> None:
    """The commit of the spend is refused together with the read; only durable state is shown."""
    host.faults.refuses = lambda rows: RejectedError("refused") if rows.journal else None
    spending, reading = host.submit(spend(1, amount_minor=6_000)), host.submit(room(1))
    (lost,), (reply,) = await spending, await reading
    assert isinstance(lost, NotExecuted)
    assert body(reply)["max_amount"] == "100.00"


async def test_acknowledged_controls_bind_the_next_read(host: TestHost) -> None:
    caps = change_card(1, card_id=FIRST.id, controls=(PerDayAmountCap(2_500),))
    assert isinstance(await host.execute_one(caps), Done)
    assert approved(await host.execute_one(spend(1)))
    shown = await answer(host, room())
    assert (shown["max_amount"], shown["binding"]["rule"]) == ("15.00", "per_day_amount_cap")
    assert shown["binding"]["used"] == "10.00"


async def test_read_of_a_cold_card_activates_it(cluster: Cluster) -> None:
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    second = await cluster.add("b", ALL_SHARDS)
    before = stored(cluster)
    replies = await second.execute(room(1), dry(2), dry(3, card_id=SECOND.id))
    assert [body(reply).get("decision") for reply in replies] == [None, "approved", "declined"]
    assert second.faults.calls["load_cards"] == 1
    assert stored(cluster) == before


async def test_unknown_card_and_foreign_tenant_are_not_found(host: TestHost) -> None:
    for command in (
        dry(1, card_id=an_id(0xDEAD)),
        room(1, an_id(0xDEAD)),
        msgspec.structs.replace(dry(2), tenant_id=an_id(9)),
        msgspec.structs.replace(room(2), live=True),
    ):
        reply = await host.execute_one(command)
        assert isinstance(reply, Problem)
        assert reply.status == 404


async def test_owner_moves_while_asked(cluster: Cluster) -> None:
    """The former owner gives no reply from its memory; the new one answers the same commands."""
    first, second = await cluster.add("a", ALL_SHARDS), await cluster.add("b")
    await furnish(first)
    assert approved(await first.execute_one(spend(1)))
    hold = first.faults.hold("before", "commit")
    reading = first.submit(room(1), dry(2))
    await hold.reached.wait()
    await second.host.take(ALL_SHARDS)
    hold.release()
    await turns(lambda: first.fenced)
    await idle()
    assert not reading.done()
    reading.cancel()
    found, evaluated = map(body, await second.execute(room(1), dry(2)))
    assert (found["max_amount"], evaluated["decision"]) == ("90.00", "approved")


async def test_read_under_the_same_key_is_made_again(host: TestHost) -> None:
    before = await answer(host, room())
    assert approved(await host.execute_one(spend(7)))
    assert (before["max_amount"], (await answer(host, room()))["max_amount"]) == ("100.00", "90.00")


# --- authorization rules ---


@pytest.fixture
async def ruled(host: TestHost) -> TestHost:
    """A programme whose cards may spend three times in ten minutes, and 40.00 in a month."""
    of_programme = {"programme_id": PROGRAMME}
    replies = await host.execute(
        create_rule(1, velocity("count", "PT10M", "gt", 3), **of_programme),
        create_rule(2, velocity("amount", "month", "gt", 4_000), **of_programme),
        create_rule(3, condition("mcc", "in", ["7995"]), **of_programme, state="shadow"),
    )
    assert all(isinstance(reply, Done) for reply in replies), replies
    return host


def label(number: int) -> str:
    return f"rule:{create_rule(number).rule.id}@1"


async def test_reads_see_velocity_and_do_not_count(ruled: TestHost, cluster: Cluster) -> None:
    for number in range(1, 4):
        before = stored(cluster)
        for repetition in range(5):
            shown = await answer(ruled, dry(10 * number + repetition))
            assert shown["decision"] == "approved"
        found = await answer(ruled, room(number))
        limits = {limit["rule"]: limit for limit in found["limits"]}
        assert limits[label(1)]["remaining"] == str(4 - number)
        assert limits[label(2)]["used"] == f"{10 * (number - 1)}.00"
        assert (found["binding"]["rule"], found["binding"]["unit"]) == (label(2), "amount")
        assert found["max_amount"] == f"{50 - 10 * number}.00"
        assert stored(cluster) == before
        assert approved(await ruled.execute_one(spend(number)))
    found = await answer(ruled, room(4))
    assert (found["max_amount"], found["decline_reason"]) == ("0.00", "rule_declined")
    binding = found["binding"]
    assert (binding["rule"], binding["unit"], binding["limit"], binding["used"]) == (
        label(1),
        "count",
        "3",
        "3",
    )
    assert binding["decline_detail"] == "reason_1"
    shown = await answer(ruled, dry(99))
    assert (shown["decline_reason"], shown["decline_detail"]) == ("rule_declined", "reason_1")
    assert not approved(await ruled.execute_one(spend(4)))


async def test_dry_run_with_rules_equals_the_spend_that_follows(ruled: TestHost, cluster: Cluster) -> None:
    for number, amount_minor in enumerate((1_500, 2_600, 2_500, 500, 10, 10), 1):
        shown = await answer(ruled, dry(number, amount_minor=amount_minor, mcc="7995"))
        await ruled.execute_one(spend(number + 100, amount_minor=amount_minor, mcc="7995"))
        made = msgspec.json.decode(cluster.journal_of(FIRST.id)[-1]["decision"])
        assert (shown["decline_reason"], shown["decline_detail"]) == (
            made["reason"],
            made.get("decline_detail"),
        )
        assert [(step["rule"], step["outcome"]) for step in shown["trace"]] == [
            (step[0], step[1]) for step in made["trace"]
        ]


async def test_reads_of_a_cold_card_see_its_past(ruled: TestHost, cluster: Cluster) -> None:
    for number in range(1, 4):
        assert approved(await ruled.execute_one(spend(number)))
    second = await cluster.add("b", ALL_SHARDS)
    before = stored(cluster)
    found, shown = map(body, await second.execute(room(1), dry(50)))
    assert (found["max_amount"], shown["decline_detail"]) == ("0.00", "reason_1")
    assert stored(cluster) == before


# --- delegated programmes ---


async def test_dry_run_does_not_ask_the_programme(cluster: Cluster, delegated: TestHost) -> None:
    shown = await answer(delegated, dry())
    assert (shown["decision"], cluster.programmes.questions) == ("delegated", [])
    assert (await answer(delegated, dry(2, amount_minor=100_001)))["decline_reason"] == "insufficient_funds"
    assert (await answer(delegated, room()))["decided_by"] == "programme"


@pytest.mark.parametrize("amount_minor", [1_000, 4_999, 5_001])
async def test_stand_in_is_shown_without_exposure(
    cluster: Cluster, delegated: TestHost, amount_minor: int
) -> None:
    """A dry run before an outage, and the stand-in that follows, have the same decision and trace."""
    before, memory = stored(cluster), in_memory(delegated)
    shown = await answer(delegated, dry(1, stand_in=True, amount_minor=amount_minor))
    assert (stored(cluster), in_memory(delegated), cluster.programmes.questions) == (before, memory, [])
    assert shown["decided_by"] == "stand_in"
    cluster.programmes.answer = lambda question: SILENT
    reply = await delegated.execute_one(spend(2, amount_minor=amount_minor))
    assert approved(reply) == (shown["decision"] == "approved") == (amount_minor <= 5_000)
    made = msgspec.json.decode(cluster.journal_of(FIRST.id)[-1]["decision"])
    steps = [(step["rule"], step["outcome"]) for step in shown["trace"]]
    assert steps == [(step[0], step[1]) for step in made["trace"]]
    assert shown["response_code"] == made["response_code"]


async def test_stand_in_sees_the_used_budget_and_declared_balance(
    cluster: Cluster, delegated: TestHost
) -> None:
    cluster.programmes.answer = lambda question: SILENT
    assert approved(await delegated.execute_one(spend(1, amount_minor=5_000)))
    shown = await answer(delegated, dry(2, stand_in=True, amount_minor=3_001))
    assert (shown["decline_reason"], shown["response_code"]) == ("stand_in_declined", "51")
    shown = await answer(delegated, dry(3, stand_in=True, amount_minor=3_000))
    assert shown["decision"] == "approved"
    budget = shown["trace"][-1]
    assert (budget["rule"], budget["observed"], budget["limit"]) == ("stand_in_budget", "80.00", "100.00")


async def test_unreachable_programme_owner_declines_a_dry_run(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.owner_away = True
    shown = await answer(delegated, dry(stand_in=True))
    assert shown["decline_reason"] == "stand_in_declined"
    assert shown["trace"][-2]["observed"] == "budget_unreachable"


async def test_platform_programmes_have_no_stand_in(host: TestHost) -> None:
    shown = await answer(host, dry(stand_in=True))
    assert (shown["decision"], shown["decided_by"]) == ("approved", "platform")


async def test_dry_runs_do_not_disturb_concurrent_spends(host: TestHost) -> None:
    """Ten spends of 10.00 on 100.00, each beside a dry run: all are approved."""
    pending = [
        host.submit(spend(number), dry(number + 100), remaining_ms=PATIENCE_MS) for number in range(1, 11)
    ]
    replies = await asyncio.gather(*pending)
    assert all(approved(reply) for reply, _ in replies)
    assert (await answer(host, room()))["max_amount"] == "0.00"
