"""A dispatcher sends due deliveries, limits the attempts of each endpoint, and records the results."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from stripe import WebhookSignature

from actors.database import DatabaseUnavailableError
from actors.egress.answers import Received
from actors.ids import new_id
from actors.outbox.stream import StreamEntry
from actors.webhooks import attempts, recording
from actors.webhooks import dispatcher as dispatcher_module
from actors.webhooks.delivery_store import NO_ID
from engine.instant import to_datetime
from engine.limits import ATTEMPTS_OF_ENDPOINT_MAX, ATTEMPTS_OF_SUSPECT_MAX
from tests.support.actors.outbox.database import NOW_MS
from tests.support.actors.outbox.waiting import eventually
from tests.support.actors.webhooks.support import SECRET, DeliverySetup, failing, status, work

URL = "https://receiver.test/hook"


async def test_delivery_sends_the_event_bytes_with_a_valid_signature(
    setup: DeliverySetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    (delivery,) = await setup.deliveries(await setup.endpoint())
    await work(setup.dispatcher())
    (request,) = setup.receivers.requests
    event = (await setup.row(delivery))["event_id"]
    expected = (
        f'{{"id":"{event}","type":"card.created","created_at":"2026-09-21T14:13:20.000Z",'
        '"data":{"n":1,"é":1.50}}'
    )
    assert request.body == expected.encode()
    monkeypatch.setattr(time, "time", lambda: NOW_MS / 1000)
    # An independent verifier that customers use.
    assert WebhookSignature.verify_header(expected, request.signature, SECRET, tolerance=300)


async def test_both_secrets_sign_during_a_rotation(setup: DeliverySetup) -> None:
    endpoint = await setup.endpoint()
    await setup.database.connection.execute(
        "UPDATE webhook_endpoints SET previous_secret_sealed = $1, previous_secret_expires_at = $2",
        setup.secrets.seal(endpoint, "whsec_b2xk"),
        to_datetime(NOW_MS + 86_400_000),
    )
    dispatcher = setup.dispatcher()
    await setup.deliveries(endpoint)
    await work(dispatcher)
    setup.clock.forward(86_400)
    await setup.deliveries(endpoint)
    await work(dispatcher)
    assert [request.signature.count("v1=") for request in setup.receivers.requests] == [2, 1]


async def test_unreadable_secret_fails_the_attempt(setup: DeliverySetup) -> None:
    endpoint = await setup.endpoint()
    await setup.database.connection.execute("UPDATE webhook_endpoints SET secret_sealed = 'nonsense'")
    (delivery,) = await setup.deliveries(endpoint)
    await work(setup.dispatcher())
    assert await setup.attempts(delivery) == [(1, None, "secret_unreadable")]
    assert setup.receivers.requests == []


async def test_wake_ups_are_acknowledged_after_the_result_is_recorded(setup: DeliverySetup) -> None:
    endpoint = await setup.endpoint()
    (delivery,) = await setup.deliveries(endpoint)
    setup.receivers.hanging[URL] = asyncio.Event()
    dispatcher = setup.dispatcher()
    setup.stream.add(delivery, endpoint)
    setup.stream.add(new_id(), endpoint)
    setup.stream.waiting.append(StreamEntry("99-0", None))
    # The same wake-up again, while its attempt is open.
    setup.stream.add(delivery, endpoint)
    dispatcher.accept(await setup.stream.read(10))
    assert await dispatcher.claim_batch()
    await eventually(lambda: len(setup.stream.acknowledged) == 3)
    assert set(setup.stream.acknowledged) == {"2-0", "3-0", "99-0"}
    assert len(setup.receivers.requests) == 1
    setup.receivers.hanging[URL].set()
    await dispatcher.drain()
    assert setup.stream.acknowledged[-1] == "1-0"
    assert dispatcher.slots.taken == 0


@pytest.mark.parametrize("found", ["by wake-up", "by sweep"])
async def test_due_deliveries_to_a_disabled_endpoint_fail(setup: DeliverySetup, found: str) -> None:
    endpoint = await setup.endpoint(status="disabled")
    deliveries = await setup.deliveries(endpoint, 40)
    dispatcher = setup.dispatcher()
    if found == "by wake-up":
        for delivery in deliveries:
            setup.stream.add(delivery, endpoint)
        dispatcher.accept(await setup.stream.read(100))
    await work(dispatcher)
    for delivery in deliveries:
        row = await setup.row(delivery)
        assert (row["state"], row["failure"], row["attempts"]) == ("failed", "endpoint_disabled", 0)
    assert setup.receivers.requests == []
    assert (dispatcher.slots.taken, dispatcher.slots.endpoints_behind) == (0, 0)


async def test_due_deliveries_to_a_deleted_endpoint_are_deleted(setup: DeliverySetup) -> None:
    endpoint, other = await setup.endpoint(), await setup.endpoint()
    await setup.deliveries(endpoint, 20)
    (other_delivery,) = await setup.deliveries(other)
    setup.receivers.answers[URL] = status(500)
    dispatcher = setup.dispatcher()
    await work(dispatcher)
    await setup.database.connection.execute("DELETE FROM webhook_endpoints WHERE id = $1", endpoint)
    assert await setup.states() == {"pending": 21}
    setup.clock.forward(60)
    await work(dispatcher)
    assert await setup.states() == {"pending": 1}
    assert len(await setup.attempts(other_delivery)) == 2
    assert await setup.database.connection.fetchval("SELECT count(*) FROM delivery_attempts") == 2


async def test_delivery_of_an_expired_event_fails(setup: DeliverySetup) -> None:
    (delivery,) = await setup.deliveries(await setup.endpoint())
    await setup.database.connection.execute("DELETE FROM event_rows")
    await work(setup.dispatcher())
    row = await setup.row(delivery)
    assert (row["state"], row["failure"]) == ("failed", "event_expired")


async def test_hanging_and_failing_receivers_do_not_delay_others(setup: DeliverySetup) -> None:
    hanging = [f"https://hanging{number}.test/" for number in range(5)]
    refusing = [f"https://refusing{number}.test/" for number in range(5)]
    healthy = [f"https://healthy{number}.test/" for number in range(40)]
    for url in hanging:
        setup.receivers.hanging[url] = asyncio.Event()
        setup.receivers.answers[url] = failing("timeout")
    for url in refusing:
        setup.receivers.answers[url] = failing("connect")
    for url in (*hanging, *refusing, *healthy):
        await setup.deliveries(await setup.endpoint(url), 30)
    dispatcher = setup.dispatcher()
    dispatcher.start()
    delivered = "SELECT count(*) FROM deliveries WHERE state = 'delivered'"
    await eventually(lambda: _is(setup, delivered, 30 * len(healthy)))
    for url in hanging:
        assert len(setup.receivers.to(url)) == ATTEMPTS_OF_ENDPOINT_MAX
    for url in refusing:
        assert len(setup.receivers.to(url)) == 30
    # Slow attempts return their slots.
    await eventually(lambda: dispatcher.slots.slow == len(hanging) * ATTEMPTS_OF_ENDPOINT_MAX)
    # After their time-outs the hanging endpoints are suspects, with few attempts at a time.
    for url in hanging:
        setup.receivers.hanging[url].set()
        setup.receivers.hanging[url] = asyncio.Event()
    expected = ATTEMPTS_OF_ENDPOINT_MAX + ATTEMPTS_OF_SUSPECT_MAX
    await eventually(lambda: all(len(setup.receivers.to(url)) == expected for url in hanging))
    for url in hanging:
        setup.receivers.hanging[url].set()
    await dispatcher.stop()


async def _is(setup: DeliverySetup, sql: str, expected: int) -> bool:
    found: int = await setup.database.connection.fetchval(sql)
    return found == expected


async def test_sweep_finds_due_retries_without_a_wake_up(setup: DeliverySetup) -> None:
    setup.receivers.answers[URL] = status(503)
    endpoint = await setup.endpoint()
    await setup.deliveries(endpoint, 3)
    dispatcher = setup.dispatcher()
    dispatcher.start()
    await eventually(lambda: len(setup.receivers.requests) == 3)
    setup.clock.forward(60)
    await eventually(lambda: len(setup.receivers.requests) == 6)
    await dispatcher.stop()
    await dispatcher.stop()
    assert dispatcher.attempts.counts.results == {"status_5xx": 6}


async def test_sweep_covers_all_endpoints_in_steps(
    setup: DeliverySetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher_module, "DELIVERY_SWEEP_ENDPOINTS_MAX", 2)
    urls = [f"https://receiver{number}.test/" for number in range(5)]
    for url in urls:
        await setup.deliveries(await setup.endpoint(url), 3)
    dispatcher = setup.dispatcher()
    assert [await dispatcher.sweep() for _ in range(3)] == [True, True, False]
    assert dispatcher.slots.endpoints_behind == 5
    while await dispatcher.claim_batch():
        await dispatcher.drain()
    assert [len(setup.receivers.to(url)) for url in urls] == [3] * 5
    assert not await dispatcher.sweep()
    assert dispatcher.slots.endpoints_behind == 0


async def test_nothing_is_claimed_while_the_database_clock_is_not_trusted(setup: DeliverySetup) -> None:
    endpoint = await setup.endpoint()
    deliveries = await setup.deliveries(endpoint)
    store = setup.store()
    assert await store.find_pending_endpoints(NO_ID, 10) == [(endpoint, True)]
    store._now = lambda: None
    assert await store.find_pending_endpoints(NO_ID, 10) == []
    assert not (await store.claim(deliveries, {endpoint: 1})).leases
    assert await setup.states() == {"pending": 1}


async def test_jump_of_the_database_clock_makes_no_delivery_due(setup: DeliverySetup) -> None:
    """The expected time counts when it is far from the clock of the database, as in these tests."""
    fetch = setup.database.connection.fetchval
    expected = to_datetime(NOW_MS)
    assert await fetch("SELECT bounded_now($1)", expected) == expected
    assert await fetch("SELECT bounded_now(now() + interval '20 seconds') = now()")


async def test_failed_claim_is_retried(setup: DeliverySetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher_module, "_PAUSE_SECONDS", 0.01)
    endpoint = await setup.endpoint()
    with_wake_up, _without = await setup.deliveries(endpoint, 2)
    dispatcher = setup.dispatcher()
    setup.stream.add(with_wake_up, endpoint)
    dispatcher.accept(await setup.stream.read(1))
    await setup.database.connection.execute("ALTER TABLE deliveries RENAME TO away")
    with pytest.raises(DatabaseUnavailableError):
        await dispatcher.claim_batch()
    assert (dispatcher.slots.taken, dispatcher.slots.endpoints_behind) == (0, 1)
    dispatcher.start()
    await eventually(lambda: dispatcher.claim_failures)
    await setup.database.connection.execute("ALTER TABLE away RENAME TO deliveries")
    await eventually(lambda: len(setup.receivers.requests) == 2)
    await dispatcher.stop()
    assert await setup.states() == {"delivered": 2}


async def test_results_are_recorded_when_the_database_returns(setup: DeliverySetup) -> None:
    (delivery,) = await setup.deliveries(await setup.endpoint())
    dispatcher = setup.dispatcher()
    await dispatcher.sweep()
    await dispatcher.claim_batch()
    await setup.database.connection.execute("ALTER TABLE delivery_attempts RENAME TO away")
    settled = asyncio.create_task(dispatcher.drain())
    await eventually(lambda: setup.receivers.requests)
    done, _ = await asyncio.wait([settled], timeout=0.1)
    assert not done
    await setup.database.connection.execute("ALTER TABLE away RENAME TO delivery_attempts")
    await settled
    assert await setup.attempts(delivery) == [(1, 200, None)]


async def test_unrecordable_results_are_counted_and_attempts_are_lost(
    setup: DeliverySetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "TRIES_MAX", 2)
    monkeypatch.setattr(recording, "_PAUSE_SECONDS_MIN", 0.0)
    (delivery,) = await setup.deliveries(await setup.endpoint())
    dispatcher = setup.dispatcher()
    await dispatcher.sweep()
    await dispatcher.claim_batch()
    await setup.database.connection.execute("ALTER TABLE delivery_attempts RENAME TO away")
    await dispatcher.drain()
    await setup.database.connection.execute("ALTER TABLE away RENAME TO delivery_attempts")
    assert dispatcher.recorder.unrecorded == 1
    setup.clock.forward(60)
    await work(dispatcher)
    assert await setup.attempts(delivery) == [(1, None, "lost"), (2, 200, None)]


async def test_stop_waits_for_answers_then_interrupts_attempts(
    setup: DeliverySetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "DISPATCHER_STOP_SECONDS", 0.3)
    monkeypatch.setattr(dispatcher_module, "DISPATCHER_STOP_SECONDS", 0.3)
    slow, stuck = "https://slow.test/", "https://stuck.test/"
    for url in (slow, stuck):
        setup.receivers.hanging[url] = asyncio.Event()
    (first,) = await setup.deliveries(await setup.endpoint(slow))
    (second,) = await setup.deliveries(await setup.endpoint(stuck))
    dispatcher = setup.dispatcher()
    dispatcher.start()
    await eventually(lambda: len(setup.receivers.requests) == 2)
    asyncio.get_running_loop().call_later(0.05, setup.receivers.hanging[slow].set)
    await dispatcher.stop()
    assert await setup.attempts(first) == [(1, 200, None)]
    assert await setup.attempts(second) == [(1, None, "interrupted")]
    assert (await setup.row(second))["state"] == "pending"
    assert dispatcher.slots.taken == 0


async def test_fault_in_one_attempt_does_not_affect_others(setup: DeliverySetup) -> None:
    def fault() -> Received:
        raise ZeroDivisionError

    setup.receivers.answers["https://odd.test/"] = fault
    (odd,) = await setup.deliveries(await setup.endpoint("https://odd.test/"))
    (plain,) = await setup.deliveries(await setup.endpoint())
    dispatcher = setup.dispatcher()
    await work(dispatcher)
    assert await setup.attempts(odd) == []
    assert (await setup.row(plain))["state"] == "delivered"
    setup.receivers.answers.clear()
    setup.clock.forward(60)
    await work(dispatcher)
    assert await setup.attempts(odd) == [(1, None, "lost"), (2, 200, None)]


async def test_wake_up_during_the_claim_of_its_delivery_does_not_send_twice(
    setup: DeliverySetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = await setup.endpoint()
    (delivery,) = await setup.deliveries(endpoint)
    dispatcher = setup.dispatcher()
    await dispatcher.sweep()
    claim = dispatcher._store.claim

    async def claim_after_wake_up(*asked: Any) -> Any:
        setup.stream.add(delivery, endpoint)
        dispatcher.accept(await setup.stream.read(10))
        return await claim(*asked)

    with monkeypatch.context() as patched:
        patched.setattr(dispatcher._store, "claim", claim_after_wake_up)
        assert await dispatcher.claim_batch()
    await eventually(lambda: setup.stream.acknowledged)
    assert await dispatcher.claim_batch()
    assert len(setup.receivers.requests) == 1
    assert len(dispatcher.slots) == 0, "all slots are returned"


@pytest.mark.parametrize(("claimed_seconds", "pause"), [(0.001, 0.01), (0.02, 0.1), (1.0, 0.5)])
def test_pause_after_a_claim_is_five_times_its_duration_within_bounds(
    claimed_seconds: float, pause: float
) -> None:
    """During a backlog, decisions keep most of the database's time."""
    assert dispatcher_module._pause_after(claimed_seconds) == pytest.approx(pause)
