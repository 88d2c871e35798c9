"""At most six attempts, each at its time in the schedule, through failures, frozen processes and kills."""

from __future__ import annotations

import asyncio

import pytest

from actors.egress.answers import Received
from actors.webhooks.delivery import DeliveryLease, answered, unanswered
from engine.webhooks.schedule import OFFSETS_SECONDS
from tests.support.actors.outbox.database import NOW_MS
from tests.support.actors.webhooks.support import Answer, DeliverySetup, failing, status, work

URL = "https://receiver.test/hook"


async def walk(setup: DeliverySetup, seconds: float = 2 * 86_400) -> list[float]:
    """Run a dispatcher at each time of the schedule and a millisecond before it; returns the times of the
    requests, in seconds from the first."""
    dispatcher = setup.dispatcher()
    end_ms = setup.clock.at_ms + round(seconds * 1000)
    for offset in (*OFFSETS_SECONDS, seconds):
        for early_ms in (1, 0):
            at_ms = NOW_MS + offset * 1000 - early_ms
            setup.clock.at_ms = max(setup.clock.at_ms, min(round(at_ms), end_ms))
            await work(dispatcher)
    return [(request.at_ms - NOW_MS) / 1000 for request in setup.receivers.requests]


@pytest.mark.parametrize(
    ("answer", "recorded"),
    [
        (status(500), (500, None)),
        (status(404), (404, None)),
        (status(301), (301, None)),
        (status(307), (307, None)),
        (status(199), (199, None)),
        (failing("timeout"), (None, "timeout")),
        (failing("target_refused"), (None, "target_refused")),
        (failing("connect"), (None, "connection_failed")),
        (failing("tls"), (None, "connection_failed")),
        (failing("disconnected"), (None, "connection_failed")),
    ],
)
async def test_failing_delivery_gets_six_attempts_at_the_scheduled_times(
    setup: DeliverySetup, answer: Answer, recorded: tuple[int | None, str | None]
) -> None:
    setup.receivers.answers[URL] = answer
    (delivery,) = await setup.deliveries(await setup.endpoint())
    assert await walk(setup) == [float(offset) for offset in OFFSETS_SECONDS]
    assert await setup.attempts(delivery) == [(number, *recorded) for number in range(1, 7)]
    row = await setup.row(delivery)
    assert (row["state"], row["failure"], row["next_attempt_at"]) == ("failed", "attempts_exhausted", None)
    # Every attempt sends the same bytes.
    assert len({request.body for request in setup.receivers.requests}) == 1


@pytest.mark.parametrize("successful", [1, 2, 5, 6])
async def test_first_success_ends_the_delivery(setup: DeliverySetup, successful: int) -> None:
    def answer() -> Received:
        return Received(204 if len(setup.receivers.requests) == successful else 503, b"", False)

    setup.receivers.answers[URL] = answer
    (delivery,) = await setup.deliveries(await setup.endpoint())
    assert len(await walk(setup)) == successful
    row = await setup.row(delivery)
    assert (row["state"], row["failure"], row["attempts"]) == ("delivered", None, successful)


@pytest.mark.parametrize("killed", [1, 3, 6])
async def test_attempt_of_a_killed_dispatcher_counts_and_later_attempts_keep_their_times(
    setup: DeliverySetup, killed: int
) -> None:
    setup.receivers.answers[URL] = status(500)
    (delivery,) = await setup.deliveries(await setup.endpoint())
    dispatcher, victim = setup.dispatcher(), setup.store("victim")
    for number, offset in enumerate(OFFSETS_SECONDS, start=1):
        setup.clock.at_ms = NOW_MS + offset * 1000
        if number == killed:
            endpoint = await setup.database.connection.fetchval("SELECT endpoint_id::text FROM deliveries")
            claimed = await victim.claim([], {endpoint: 1})
            assert [lease.number for lease in claimed.leases] == [killed]
        else:
            await work(dispatcher)
    setup.clock.forward(60)
    await work(dispatcher)
    expected = [(number, None, "lost") if number == killed else (number, 500, None) for number in range(1, 7)]
    assert await setup.attempts(delivery) == expected
    assert len(setup.receivers.requests) == 5
    row = await setup.row(delivery)
    assert (row["state"], row["failure"], row["attempts"]) == ("failed", "attempts_exhausted", 6)


async def test_at_most_six_attempts_when_every_dispatcher_is_killed(setup: DeliverySetup) -> None:
    (delivery,) = await setup.deliveries(await setup.endpoint())
    endpoint = str((await setup.row(delivery))["endpoint_id"])
    store = setup.store()
    begun = 0
    for _ in range(20):
        begun += len((await store.claim([delivery], {endpoint: 5})).leases)
        setup.clock.forward(86_400)
    assert begun == 6
    assert [error for _, _, error in await setup.attempts(delivery)] == ["lost"] * 6
    assert (await setup.row(delivery))["state"] == "failed"


async def test_late_record_replaces_a_lost_attempt(setup: DeliverySetup) -> None:
    endpoint = await setup.endpoint()
    first, second = await setup.deliveries(endpoint, 2)
    store = setup.store()
    leases = {lease.delivery_id: lease for lease in (await store.claim([first, second], {})).leases}
    setup.clock.forward(60)
    later = {lease.delivery_id: lease for lease in (await store.claim([first, second], {})).leases}
    assert [error for _, _, error in await setup.attempts(first)] == ["lost"]
    await store.record([answered(leases[first], 5, Received(200, b"", False))])
    await store.record([unanswered(leases[second], 10_000, "timeout")])
    assert await setup.attempts(first) == [(1, 200, None)]
    assert await setup.attempts(second) == [(1, None, "timeout")]
    # A failure of the open attempt does not change a delivered delivery.
    await store.record([answered(later[first], 5, Received(500, b"", False))])
    assert (await setup.row(first))["state"] == "delivered"
    row = await setup.row(second)
    assert (row["state"], row["attempts"]) == ("pending", 2)


async def test_success_wins_over_a_failed_last_attempt(setup: DeliverySetup) -> None:
    (delivery,) = await setup.deliveries(await setup.endpoint())
    store = setup.store()
    leases: list[DeliveryLease] = []
    for _ in range(6):
        leases += (await store.claim([delivery], {})).leases
        setup.clock.forward(86_400)
    await store.record(
        [
            unanswered(leases[5], 1, "connect"),
            answered(leases[4], 1, Received(200, b"", False)),
            unanswered(leases[3], 1, "connect"),
        ]
    )
    assert (await setup.row(delivery))["state"] == "delivered"
    assert len(await setup.attempts(delivery)) == 6


async def test_overdue_attempts_after_an_outage_keep_thirty_seconds_apart(setup: DeliverySetup) -> None:
    setup.receivers.answers[URL] = status(500)
    await setup.deliveries(await setup.endpoint())
    dispatcher = setup.dispatcher()
    await work(dispatcher)
    setup.clock.forward(3 * 3600)
    for _ in range(120):
        await work(dispatcher)
        setup.clock.forward(1)
    times = [(request.at_ms - NOW_MS) / 1000 for request in setup.receivers.requests]
    assert times == [0, 10_800, 10_830, 10_860, 10_890]
    setup.clock.at_ms = NOW_MS + 86_400_000
    await work(dispatcher)
    assert len(setup.receivers.requests) == 6


async def test_stale_lease_is_not_sent(setup: DeliverySetup) -> None:
    (delivery,) = await setup.deliveries(await setup.endpoint())
    dispatcher = setup.dispatcher()
    await dispatcher.sweep()
    assert await dispatcher.claim_batch()
    # The process is frozen after the claim and before the first byte.
    setup.clock.forward(20)
    await dispatcher.drain()
    assert setup.receivers.requests == []
    assert dispatcher.slots.taken == 0
    setup.clock.forward(40)
    await work(dispatcher)
    assert await setup.attempts(delivery) == [(1, None, "lost"), (2, 200, None)]


async def test_concurrent_dispatchers_send_each_delivery_once(setup: DeliverySetup) -> None:
    endpoints = [await setup.endpoint(f"https://receiver{number}.test/") for number in range(5)]
    for endpoint in endpoints:
        await setup.deliveries(endpoint, 60)
    dispatchers = [setup.dispatcher(f"dispatcher-{number}") for number in range(3)]
    await asyncio.gather(*(work(dispatcher) for dispatcher in dispatchers))
    for dispatcher in dispatchers:
        await work(dispatcher)
    assert await setup.states() == {"delivered": 300}
    assert len({request.body + request.url.encode() for request in setup.receivers.requests}) == 300
    assert len(setup.receivers.requests) == 300
