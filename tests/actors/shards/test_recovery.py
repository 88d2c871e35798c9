"""Recovery after a refused commit or an unknown outcome: replies agree with the journal, and no command is
lost or executed twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors.journal.contract import (
    BehindError,
    JournalError,
    RejectedError,
    Rows,
    StaleEpochError,
    UnknownOutcomeError,
)
from actors.shards import host as host_module
from actors.submission import Submission
from engine.commands import Authorize, Command
from engine.limits import ACTIVATION_ANSWERS, COMMIT_BATCH_MAX
from engine.replies import Done, IdempotencyClaim, NotExecuted, WireAnswer
from tests.support.actors.shards.support import (
    ADMIN,
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
    authorize,
    change_card,
    change_programme,
    create_card,
    key,
    load,
    read_balance,
)

SPENDS = 8


def spend(number: int = 1, **parts: Any) -> Authorize:
    return authorize(number, **{"card_id": FIRST.id} | parts)


def crowd() -> list[Authorize]:
    return [spend(number) for number in range(1, SPENDS + 1)]


async def balance(host: TestHost) -> dict[str, Any]:
    (reply,) = await host.execute(read_balance(1, card_id=FIRST.id))
    assert isinstance(reply, Done)
    return reply.body


def assert_whole(cluster: Cluster, spends: int) -> None:
    """Check that every spend is stored once, and that the journal has no gap."""
    rows = cluster.journal_of(FIRST.id)
    assert [row["seq"] for row in rows] == list(range(1, spends + 3))
    assert len(cluster.store.holds.rows) == len(cluster.store.transactions.rows) == spends


def poison(*numbers: int) -> Any:
    """Refuses every batch that contains one of the spends."""
    keys = {spend(number).command_key for number in numbers}

    def refuses(rows: Rows) -> JournalError | None:
        return RejectedError() if any(row[3] in keys for row in rows.journal) else None

    return refuses


# --- refused batches ---


async def test_only_the_poisonous_command_is_refused(host: TestHost, cluster: Cluster) -> None:
    host.faults.refuses = poison(3)
    replies = await host.execute(*crowd(), load(5, card_id=SECOND.id), read_balance(1, card_id=FIRST.id))
    assert replies[2] == NotExecuted("faulty")
    assert all(approved(reply) for place, reply in enumerate(replies[:SPENDS]) if place != 2)
    assert all(isinstance(reply, Done) for reply in replies[SPENDS:])
    assert_whole(cluster, SPENDS - 1)
    assert (await balance(host))["held"] == "70.00"


async def test_poisonous_command_can_be_retried(host: TestHost) -> None:
    host.faults.refuses = poison(1)
    assert await host.execute_one(spend()) == NotExecuted("faulty")
    assert await host.execute_one(spend()) == NotExecuted("faulty")
    host.faults.refuses = lambda rows: None
    assert approved(await host.execute_one(spend()))


async def test_commands_decided_on_a_refused_batch_are_decided_again(
    host: TestHost, cluster: Cluster
) -> None:
    """The second batch was decided on 10.00 more held than is true; decided again, the eleventh spend
    fits."""
    host.faults.refuses = poison(1)
    hold = host.faults.hold("before", "commit")
    first = host.submit(spend(1))
    await hold.reached.wait()
    second = host.submit(*(spend(number) for number in range(2, 12)))
    await turns(lambda: host.host.committer.backlog == 11)
    hold.release()
    assert await first == [NotExecuted("faulty")]
    assert all(map(approved, await second))
    assert_whole(cluster, 10)


async def test_command_during_a_recovery_is_decided_after_it(host: TestHost, cluster: Cluster) -> None:
    host.faults.fail("during", "commit", BehindError())
    hold = host.faults.hold("before", "find")
    first = host.submit(*crowd())
    await hold.reached.wait()
    second = host.submit(spend(100), read_balance(1, card_id=FIRST.id))
    await idle()
    assert not second.done()
    hold.release()
    assert all(map(approved, await first))
    reply, reading = await second
    assert approved(reply)
    assert isinstance(reading, Done)
    assert reading.body["held"] == "90.00"
    assert_whole(cluster, SPENDS + 1)


async def test_recovery_refuses_commands_beyond_their_deadline(host: TestHost, cluster: Cluster) -> None:
    host.faults.fail("during", "commit", RejectedError())
    hold = host.faults.hold("before", "find")
    pending = host.submit(*crowd())
    await hold.reached.wait()
    cluster.clock.ms += PATIENCE_MS + 1
    hold.release()
    assert await pending == [NotExecuted("deadline")] * SPENDS
    assert_whole(cluster, 0)


async def test_journal_unavailable_during_the_second_commit_loses_no_command(
    host: TestHost, cluster: Cluster
) -> None:
    host.faults.fail("during", "commit", RejectedError())
    pending = host.submit(*crowd())
    await turns(lambda: host.faults.calls["commit"] >= 3)
    host.faults.fail("after", "commit", UnknownOutcomeError())
    host.faults.fail("before", "load_cards", UnknownOutcomeError())
    replies = await pending
    assert all(map(approved, replies))
    assert_whole(cluster, SPENDS)


# --- unknown outcomes ---


@pytest.mark.parametrize("point", ["before", "during", "after"])
async def test_unknown_outcome_is_resolved(host: TestHost, cluster: Cluster, point: Any) -> None:
    epoch = host.host.epochs[0xA7]
    host.faults.fail(point, "commit", UnknownOutcomeError())
    replies = await host.execute(*crowd(), read_balance(1, card_id=FIRST.id))
    assert all(map(approved, replies[:SPENDS]))
    assert all(not reply.replayed for reply in replies if isinstance(reply, WireAnswer)) == (point != "after")
    assert_whole(cluster, SPENDS)
    assert host.host.epochs[0xA7] == epoch + 1
    assert (await balance(host))["held"] == "80.00"


async def test_every_undurable_batch_is_resolved(host: TestHost, cluster: Cluster) -> None:
    hold = host.faults.hold("after", "commit")
    first = host.submit(spend(1))
    await hold.reached.wait()
    second = host.submit(*(spend(number) for number in range(2, 6)))
    await turns(lambda: host.host.committer.backlog == 5)
    host.faults.fail("after", "commit", UnknownOutcomeError())
    hold.release()
    assert all(map(approved, (*await first, *await second)))
    assert_whole(cluster, 5)


async def test_delayed_commit_is_fenced(host: TestHost, cluster: Cluster) -> None:
    """The commit arrives after the host has given it up and renewed its epochs."""
    host.faults.fail("before", "commit", UnknownOutcomeError())
    replies = await host.execute(*crowd())
    assert all(map(approved, replies))
    late, retried = host.faults.commits[-2:]
    assert [row[3] for row in late.journal] == [row[3] for row in retried.journal]
    with pytest.raises(StaleEpochError):
        await host.journal.commit(late)
    assert_whole(cluster, SPENDS)


async def test_long_unavailability_of_the_journal_refuses_expired_commands(
    host: TestHost, cluster: Cluster
) -> None:
    """No command is approved meanwhile, expired ones are refused, and the first one afterwards is
    executed."""
    host.faults.away = True
    pending = host.submit(*crowd())
    await turns(lambda: host.faults.calls["renew"] >= 2)
    during = host.submit(spend(100), authorize(101, card_id=SECOND.id))
    await turns(lambda: host.faults.calls["renew"] >= 3)
    assert not pending.done()
    assert not during.done()
    cluster.clock.ms += PATIENCE_MS + 1
    host.faults.away = False
    assert await pending == [NotExecuted("deadline")] * SPENDS
    assert await during == [NotExecuted("deadline")] * 2
    assert approved(await host.execute_one(spend(200)))
    assert_whole(cluster, 1)


async def test_short_unavailability_of_the_journal_loses_no_answer(host: TestHost, cluster: Cluster) -> None:
    host.faults.away = True
    pending = host.submit(*crowd())
    await turns(lambda: host.faults.calls["renew"] >= 2)
    host.faults.away = False
    assert all(map(approved, await pending))
    assert_whole(cluster, SPENDS)


async def test_journal_unavailable_during_the_recovery_loses_no_command(
    host: TestHost, cluster: Cluster
) -> None:
    host.faults.fail("after", "commit", UnknownOutcomeError(), UnknownOutcomeError())
    host.faults.fail("after", "renew", UnknownOutcomeError())
    host.faults.fail("before", "find", UnknownOutcomeError())
    assert all(map(approved, await host.execute(*crowd())))
    assert all(map(approved, await host.execute(*(spend(number, amount_minor=1) for number in (20, 21)))))
    assert_whole(cluster, SPENDS + 2)


async def test_idempotency_key_with_an_unknown_outcome_is_resolved(host: TestHost, cluster: Cluster) -> None:
    claim = IdempotencyClaim(key(1) * 2, key(2) * 2)
    host.faults.fail("after", "commit", UnknownOutcomeError())
    reply = await host.execute_one(load(7, card_id=FIRST.id), claim=claim, presentation={"secret": "x"})
    again = await host.execute_one(load(8, card_id=FIRST.id), claim=claim)
    assert isinstance(reply, Done)
    assert isinstance(again, Done)
    assert (reply.body, reply.body["secret"]) == (again.body, "x")
    assert len(cluster.journal_of(FIRST.id)) == 3


@pytest.mark.parametrize("point", ["before", "after"])
async def test_new_card_with_an_unknown_outcome_is_resolved(
    host: TestHost, cluster: Cluster, point: Any
) -> None:
    card = create_card(77, programme_id=ADMIN.id)
    host.faults.fail(point, "commit", UnknownOutcomeError())
    replies = await host.execute(card, load(9, card_id=card.id), authorize(5, card_id=card.id))
    assert isinstance(replies[0], Done)
    assert isinstance(replies[1], Done)
    assert approved(replies[2])
    assert [row["kind"] for row in cluster.journal_of(card.id)] == ["create_card", "load", "authorize"]


async def test_programme_change_with_an_unknown_outcome_is_resolved(host: TestHost, cluster: Cluster) -> None:
    for point, name in (("before", "One"), ("after", "Two")):
        host.faults.fail(point, "commit", UnknownOutcomeError())  # type: ignore[arg-type]
        change = change_programme(ord(name[0]), programme_id=ADMIN.id, name=name)
        reply = await host.execute_one(change)
        assert isinstance(reply, Done)
        assert reply.body["name"] == cluster.published[-1].config.name == name
    assert [row["seq"] for row in cluster.journal_of(ADMIN.id)] == [1, 2, 3]
    assert cluster.published[-1].config.version == 3


# --- a new owner ---


async def test_fenced_host_gives_no_reply(host: TestHost, cluster: Cluster) -> None:
    other = await cluster.add("b", [0xA7])
    pending = host.submit(*crowd(), read_balance(1, card_id=FIRST.id))
    await turns(lambda: host.fenced)
    later = host.submit(spend(100), authorize(101, card_id=SECOND.id))
    await idle()
    assert not pending.done()
    assert not later.done()
    assert host.fenced == 1
    assert_whole(cluster, 0)
    assert all(map(approved, await other.execute(*crowd())))
    await host.host.stop()


@pytest.mark.parametrize(
    "command",
    [
        lambda number: read_balance(number, card_id=FIRST.id),
        lambda number: change_card(number, card_id=FIRST.id, state="active"),
        lambda number: change_card(number, card_id=FIRST.id, state="unactivated"),
        lambda number: change_programme(number, programme_id=ADMIN.id, name="Travel"),
    ],
    ids=["read", "no change", "refusal", "programme"],
)
async def test_former_owner_does_not_answer_from_memory(
    host: TestHost, cluster: Cluster, command: Callable[[int], Command]
) -> None:
    await host.execute(command(1))
    other = await cluster.add("b", [0xA7])
    await other.execute(load(6, card_id=FIRST.id))
    pending = host.submit(command(2))
    await turns(lambda: host.fenced)
    assert not pending.done()
    await host.host.stop()


async def test_owner_that_lost_its_shards_during_an_outage_is_fenced(
    host: TestHost, cluster: Cluster
) -> None:
    host.faults.away = True
    pending = host.submit(*crowd())
    await turns(lambda: host.faults.calls["renew"] >= 2)
    other = await cluster.add("b", range(256))
    host.faults.away = False
    await turns(lambda: host.fenced)
    assert not pending.done()
    assert all(map(approved, await other.execute(*crowd())))
    assert_whole(cluster, SPENDS)
    await host.host.stop()


async def test_failed_commit_keeps_other_cards_in_memory(host: TestHost) -> None:
    """Cards outside the batch stay in memory."""
    await host.execute(authorize(50, card_id=SECOND.id))
    host.faults.fail("during", "commit", RejectedError())
    reads = host.faults.calls["load_cards"]
    await host.execute(spend())
    assert SECOND.id in host.host.activation.cards
    assert host.faults.calls["load_cards"] == reads + 1


async def test_stop_is_bounded_while_the_journal_is_unavailable(
    host: TestHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_module, "HOST_STOP_SECONDS", 0.05)
    host.faults.away = True
    pending = host.submit(spend(1))
    await turns(lambda: host.host.committer.backlog)
    await host.host.stop()
    assert await pending == [NotExecuted("unavailable")]


# --- cost of a refused batch in transactions ---


async def stale(cluster: Cluster, repeats: int) -> TestHost:
    """A host without state in memory. Another host has executed ``repeats`` spends so long ago that they are
    not among the newest answers of their card."""
    first = await cluster.add("a", range(256))
    await furnish(first, cents=1_000_000)
    assert all(map(approved, await first.execute(*(spend(number) for number in range(1, repeats + 1)))))
    await first.execute(*(spend(1_000 + number, amount_minor=1) for number in range(ACTIVATION_ANSWERS)))
    return await cluster.add("b", range(256))


async def test_old_repeats_cost_one_more_transaction(cluster: Cluster) -> None:
    host = await stale(cluster, 10)
    fresh = [spend(number, amount_minor=1) for number in range(100, 300)]
    repeats = [spend(number) for number in range(1, 11)]
    replies = await host.execute(*fresh[:100], *repeats, *fresh[100:])
    assert all(map(approved, replies))
    assert [reply.replayed for reply in replies if isinstance(reply, WireAnswer)].count(True) == 10
    assert host.faults.calls["commit"] == 2
    assert host.faults.calls["find"] == 1


async def test_old_repeats_before_a_backlog_cost_one_refusal(cluster: Cluster) -> None:
    host = await stale(cluster, 3)
    fresh = [spend(number, amount_minor=1) for number in range(5_000, 5_000 + 8 * COMMIT_BATCH_MAX)]
    replies = await host.execute(*(spend(number) for number in range(1, 4)), *fresh)
    assert all(map(approved, replies))
    # One commit is refused. Then all new commands are committed in full batches, without the repeats.
    assert host.faults.calls["commit"] == 1 + 8


async def test_marked_repeats_cost_no_refusal(cluster: Cluster) -> None:
    host = await stale(cluster, 10)
    batch = [Submission(spend(number), PATIENCE_MS, repeat=True) for number in range(1, 11)]
    batch += [Submission(spend(number, amount_minor=1), PATIENCE_MS) for number in range(100, 300)]
    assert all(map(approved, await host.host.execute(batch)))
    assert host.host.committer.failures == 0
    assert host.faults.calls["find"] == 1


async def test_poisonous_command_is_found_by_halving(host: TestHost, cluster: Cluster) -> None:
    host.faults.refuses = poison(77)
    await host.execute(load(900, card_id=FIRST.id, amount_minor=1_000_000))
    before = host.faults.calls["commit"]
    replies = await host.execute(*(spend(number, amount_minor=1) for number in range(1, 129)))
    assert [number for number, reply in enumerate(replies, 1) if not approved(reply)] == [77]
    # Refused twice as a whole; then 128 commands are halved seven times, two transactions each.
    assert host.faults.calls["commit"] - before <= 2 + 2 * 7


async def test_command_that_fails_our_code_costs_one_transaction(
    host: TestHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = host.host.decider.decide

    def failing(pending: Any, rows: Rows, now_ms: int) -> None:
        decide(pending, rows, now_ms)
        if pending.command.command_key == spend(3).command_key:
            raise ZeroDivisionError

    monkeypatch.setattr(host.host.decider, "decide", failing)
    before = host.faults.calls["commit"]
    replies = await host.execute(*crowd())
    assert [number for number, reply in enumerate(replies, 1) if not approved(reply)] == [3]
    assert replies[2] == NotExecuted("faulty")
    assert host.faults.calls["commit"] - before == 1
