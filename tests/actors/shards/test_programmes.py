"""A change of a programme is acknowledged only after every host has it."""

from __future__ import annotations

import asyncio

import msgspec

from actors.journal.contract import UnknownOutcomeError
from engine.commands import Command
from engine.decision.inputs import Inputs
from engine.replies import Done, NotExecuted, Problem, WireAnswer
from tests.support.actors.shards.support import (
    ADMIN,
    ALL_SHARDS,
    FIRST,
    SECOND,
    Cluster,
    Hold,
    TestHost,
    approved,
    furnish,
    idle,
    turns,
)
from tests.support.engine.build import authorize, change_programme, create_programme


def change(number: int = 1, **changes: object) -> Command:
    return change_programme(number, **{"programme_id": ADMIN.id} | changes)


async def two_hosts(cluster: Cluster) -> tuple[TestHost, TestHost]:
    """The first host owns the programme and the first card, the second host the second card; both cards are
    active."""
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    second = await cluster.add("b", [3])
    first.host.epochs.pop(3)
    assert approved(await second.execute_one(authorize(901, card_id=SECOND.id, amount_minor=0)))
    return first, second


async def test_change_is_acknowledged_after_every_host_has_it(cluster: Cluster) -> None:
    first, second = await two_hosts(cluster)
    cluster.publishing = Hold()
    pending = first.submit(change(status="suspended"))
    await cluster.publishing.reached.wait()
    await idle()
    assert not pending.done()
    assert approved(await second.execute_one(authorize(1, card_id=SECOND.id, amount_minor=0)))
    cluster.publishing.release()
    (reply,) = await pending
    assert isinstance(reply, Done)
    assert reply.body["version"] == 2
    for number, host, card in ((2, first, FIRST), (3, second, SECOND)):
        answer = await host.execute_one(authorize(number, card_id=card.id))
        assert isinstance(answer, WireAnswer)
        assert answer.response_code == "57"


async def test_only_durable_changes_are_announced(cluster: Cluster) -> None:
    first, _ = await two_hosts(cluster)
    announced = len(cluster.published)
    hold = first.faults.hold("during", "commit")
    pending = first.submit(change(name="Fuel"))
    await hold.reached.wait()
    await idle()
    assert len(cluster.published) == announced
    assert first.host.activation.snapshots[ADMIN.id].config.version == 1
    hold.release()
    await pending
    assert cluster.published[announced:] == [first.host.activation.snapshots[ADMIN.id]]


async def test_refused_change_is_not_announced(cluster: Cluster) -> None:
    first, _ = await two_hosts(cluster)
    announced = len(cluster.published)
    await first.execute(change(1, status="closed"))
    reply = await first.execute_one(change(2, status="active"))
    assert isinstance(reply, Problem)
    assert len(cluster.published) == announced + 1


async def test_versions_increase_by_one(cluster: Cluster) -> None:
    first, second = await two_hosts(cluster)
    replies = await first.execute(*(change(number, name=f"Name {number}") for number in range(1, 9)))
    assert [reply.body["version"] for reply in replies if isinstance(reply, Done)] == list(range(2, 10))
    assert second.host.activation.snapshots[ADMIN.id].config.version == 9
    assert [row["seq"] for row in cluster.journal_of(ADMIN.id)] == list(range(1, 10))


async def test_older_version_does_not_replace_a_newer_one(cluster: Cluster) -> None:
    first, second = await two_hosts(cluster)
    old = first.host.activation.snapshots[ADMIN.id]
    await first.execute(change(name="Fuel"))
    second.host.programme_changed(old)
    assert second.host.activation.snapshots[ADMIN.id].config.name == "Fuel"


async def test_change_resolved_from_the_journal_is_announced(cluster: Cluster) -> None:
    first, second = await two_hosts(cluster)
    first.faults.fail("after", "commit", UnknownOutcomeError())
    reply = await first.execute_one(change(name="Fuel"))
    assert isinstance(reply, Done)
    assert reply.replayed
    assert second.host.activation.snapshots[ADMIN.id].config.name == "Fuel"


async def test_successor_announces_the_change_of_a_dead_owner(cluster: Cluster) -> None:
    """The owner dies after its commit and before the announcement; the caller sends the change to the new
    owner."""
    first, second = await two_hosts(cluster)
    silence = cluster.publishing = Hold()
    dying = first.submit(change(status="suspended"))
    await silence.reached.wait()
    cluster.publishing = None
    assert second.host.activation.snapshots[ADMIN.id].config.version == 1
    await second.host.take(ALL_SHARDS)
    reply = await second.execute_one(change(status="suspended"))
    assert isinstance(reply, Done)
    assert cluster.published[-1].config.version == reply.body["version"] == 2
    answer = await second.execute_one(authorize(5, card_id=SECOND.id))
    assert isinstance(answer, WireAnswer)
    assert answer.response_code == "57"
    silence.release()
    await dying


async def test_change_with_a_failed_announcement_is_not_acknowledged(cluster: Cluster) -> None:
    first, second = await two_hosts(cluster)
    cluster.publish_failures.append(ConnectionError("the coordinator is gone"))
    assert await first.execute_one(change(name="Fuel")) == NotExecuted("unavailable")
    assert second.host.activation.snapshots[ADMIN.id].config.version == 1
    reply = await first.execute_one(change(name="Fuel"))
    assert isinstance(reply, Done)
    assert reply.replayed
    assert second.host.activation.snapshots[ADMIN.id].config.version == 2
    assert len(cluster.journal_of(ADMIN.id)) == 2


async def test_repeat_is_not_acknowledged_when_the_version_cannot_be_read(cluster: Cluster) -> None:
    first, _ = await two_hosts(cluster)
    await first.execute(change(name="Fuel"))
    first.faults.fail("before", "load_programmes", UnknownOutcomeError())
    assert await first.execute_one(change(name="Fuel")) == NotExecuted("unavailable")
    assert isinstance(await first.execute_one(change(name="Fuel")), Done)


async def test_decision_records_the_version_that_it_uses(cluster: Cluster) -> None:
    first, _ = await two_hosts(cluster)
    await first.execute(authorize(1, card_id=FIRST.id))
    await first.execute(change(hold_expiry_days=1), authorize(2, card_id=FIRST.id))
    await first.execute(authorize(3, card_id=FIRST.id))
    decided = [row for row in cluster.journal_of(FIRST.id) if row["kind"] == "authorize"]
    inputs = [msgspec.json.decode(row["inputs"], type=Inputs) for row in decided]
    assert [each.programme_version for each in inputs] == [1, 1, 2]
    holds = sorted(row["expires_at"] for row in cluster.store.holds.rows.values())
    day_ms = 86_400_000
    assert [expires - cluster.clock.ms for expires in holds] == [day_ms, 7 * day_ms, 7 * day_ms]


async def test_new_programme_is_announced_to_every_host(cluster: Cluster) -> None:
    first, second = await two_hosts(cluster)
    created = create_programme(5)
    assert isinstance(await first.execute_one(created), Done)
    assert second.host.activation.snapshots[created.id].config.version == 1
    again = await first.execute_one(created)
    assert isinstance(again, Done)
    assert again.replayed
    assert len(cluster.journal_of(created.id)) == 1


async def test_stop_waits_for_announcements(cluster: Cluster) -> None:
    first, _ = await two_hosts(cluster)
    cluster.publishing = Hold()
    pending = first.submit(change(name="Fuel"))
    await cluster.publishing.reached.wait()
    stop = asyncio.create_task(first.host.stop())
    await idle()
    assert not stop.done()
    cluster.publishing.release()
    await stop
    assert isinstance((await pending)[0], Done)
    await turns(lambda: not first.host.announcements.tasks)
