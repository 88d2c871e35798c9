"""A dispatcher sends what is due, to everybody at their own pace, and says what came of it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from stripe import WebhookSignature

from actors.database import DatabaseUnavailableError
from actors.egress.client import Received
from actors.ids import new_id
from actors.outbox.stream import Entry
from actors.webhooks import dispatcher as dispatcher_module
from engine.instant import to_datetime
from engine.limits import ATTEMPTS_OF_ENDPOINT_MAX, ATTEMPTS_OF_SUSPECT_MAX
from tests.actors.outbox.database import NOW_MS
from tests.actors.outbox.waiting import eventually
from tests.actors.webhooks.support import SECRET, Post, failing, status, work

URL = "https://receiver.test/hook"


async def test_the_bytes_are_the_events_and_the_signature_is_theirs(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    (delivery,) = await post.deliveries(await post.endpoint())
    await work(post.dispatcher())
    (request,) = post.receivers.requests
    event = (await post.row(delivery))["event_id"]
    expected = (
        f'{{"id":"{event}","type":"card.created","created_at":"2026-09-21T14:13:20.000Z",'
        '"data":{"n":1,"é":1.50}}'
    )
    assert request.body == expected.encode()
    monkeypatch.setattr(time, "time", lambda: NOW_MS / 1000)
    # Somebody else's verifier, as customers use it.
    assert WebhookSignature.verify_header(expected, request.signature, SECRET, tolerance=300)


async def test_both_secrets_sign_while_a_rotation_lasts(post: Post) -> None:
    endpoint = await post.endpoint()
    await post.world.connection.execute(
        "UPDATE webhook_endpoints SET previous_secret_sealed = $1, previous_secret_expires_at = $2",
        post.custody.seal(endpoint, "whsec_b2xk"),
        to_datetime(NOW_MS + 86_400_000),
    )
    dispatcher = post.dispatcher()
    await post.deliveries(endpoint)
    await work(dispatcher)
    post.clock.forward(86_400)
    await post.deliveries(endpoint)
    await work(dispatcher)
    assert [request.signature.count("v1=") for request in post.receivers.requests] == [2, 1]


async def test_a_secret_that_cannot_be_opened_is_a_failed_attempt(post: Post) -> None:
    endpoint = await post.endpoint()
    await post.world.connection.execute("UPDATE webhook_endpoints SET secret_sealed = 'nonsense'")
    (delivery,) = await post.deliveries(endpoint)
    await work(post.dispatcher())
    assert await post.attempts(delivery) == [(1, None, "secret_unreadable")]
    assert post.receivers.requests == []


async def test_wake_ups_are_acknowledged_once_the_ending_is_durable(post: Post) -> None:
    endpoint = await post.endpoint()
    (delivery,) = await post.deliveries(endpoint)
    post.receivers.hanging[URL] = asyncio.Event()
    dispatcher = post.dispatcher()
    post.stream.tell(delivery, endpoint)
    post.stream.tell(new_id(), endpoint)
    post.stream.waiting.append(Entry("99-0", None))
    # The same again, while it is being sent.
    post.stream.tell(delivery, endpoint)
    dispatcher.hear(await post.stream.read(10))
    assert await dispatcher.claim_batch()
    await eventually(lambda: len(post.stream.acknowledged) == 3)
    assert set(post.stream.acknowledged) == {"2-0", "3-0", "99-0"}
    assert len(post.receivers.requests) == 1
    post.receivers.hanging[URL].set()
    await dispatcher.settle()
    assert post.stream.acknowledged[-1] == "1-0"
    assert dispatcher.lanes.under_way == 0


@pytest.mark.parametrize("found", ["told", "swept"])
async def test_a_disabled_endpoint_ends_its_deliveries_when_they_are_due(post: Post, found: str) -> None:
    endpoint = await post.endpoint(status="disabled")
    deliveries = await post.deliveries(endpoint, 40)
    dispatcher = post.dispatcher()
    if found == "told":
        for delivery in deliveries:
            post.stream.tell(delivery, endpoint)
        dispatcher.hear(await post.stream.read(100))
    await work(dispatcher)
    for delivery in deliveries:
        row = await post.row(delivery)
        assert (row["state"], row["failure"], row["attempts"]) == ("failed", "endpoint_disabled", 0)
    assert post.receivers.requests == []
    assert (dispatcher.lanes.under_way, dispatcher.lanes.behind) == (0, 0)


async def test_deliveries_of_a_deleted_endpoint_vanish_when_they_are_due(post: Post) -> None:
    endpoint, other = await post.endpoint(), await post.endpoint()
    await post.deliveries(endpoint, 20)
    (kept,) = await post.deliveries(other)
    post.receivers.answers[URL] = status(500)
    dispatcher = post.dispatcher()
    await work(dispatcher)
    await post.world.connection.execute("DELETE FROM webhook_endpoints WHERE id = $1", endpoint)
    assert await post.states() == {"pending": 21}
    post.clock.forward(60)
    await work(dispatcher)
    assert await post.states() == {"pending": 1}
    assert len(await post.attempts(kept)) == 2
    assert await post.world.connection.fetchval("SELECT count(*) FROM delivery_attempts") == 2


async def test_an_event_that_is_kept_no_longer_ends_its_delivery(post: Post) -> None:
    (delivery,) = await post.deliveries(await post.endpoint())
    await post.world.connection.execute("DELETE FROM events")
    await work(post.dispatcher())
    row = await post.row(delivery)
    assert (row["state"], row["failure"]) == ("failed", "event_expired")


async def test_who_hangs_or_fails_delays_nobody_else(post: Post) -> None:
    hanging = [f"https://hanging{number}.test/" for number in range(5)]
    refusing = [f"https://refusing{number}.test/" for number in range(5)]
    healthy = [f"https://healthy{number}.test/" for number in range(40)]
    for url in hanging:
        post.receivers.hanging[url] = asyncio.Event()
        post.receivers.answers[url] = failing("timeout")
    for url in refusing:
        post.receivers.answers[url] = failing("connect")
    for url in (*hanging, *refusing, *healthy):
        await post.deliveries(await post.endpoint(url), 30)
    dispatcher = post.dispatcher()
    dispatcher.start()
    delivered = "SELECT count(*) FROM deliveries WHERE state = 'delivered'"
    await eventually(lambda: _is(post, delivered, 30 * len(healthy)))
    for url in hanging:
        assert len(post.receivers.to(url)) == ATTEMPTS_OF_ENDPOINT_MAX
    for url in refusing:
        assert len(post.receivers.to(url)) == 30
    # Their places are free again while they hang.
    await eventually(lambda: dispatcher.lanes.slow == len(hanging) * ATTEMPTS_OF_ENDPOINT_MAX)
    # Their time is over: from now on they get a few attempts at a time.
    for url in hanging:
        post.receivers.hanging[url].set()
        post.receivers.hanging[url] = asyncio.Event()
    expected = ATTEMPTS_OF_ENDPOINT_MAX + ATTEMPTS_OF_SUSPECT_MAX
    await eventually(lambda: all(len(post.receivers.to(url)) == expected for url in hanging))
    for url in hanging:
        post.receivers.hanging[url].set()
    await dispatcher.stop()


async def _is(post: Post, sql: str, expected: int) -> bool:
    found: int = await post.world.connection.fetchval(sql)
    return found == expected


async def test_retries_that_fall_due_are_found_without_a_word(post: Post) -> None:
    post.receivers.answers[URL] = status(503)
    endpoint = await post.endpoint()
    await post.deliveries(endpoint, 3)
    dispatcher = post.dispatcher()
    dispatcher.start()
    await eventually(lambda: len(post.receivers.requests) == 3)
    post.clock.forward(60)
    await eventually(lambda: len(post.receivers.requests) == 6)
    await dispatcher.stop()
    await dispatcher.stop()
    assert dispatcher.counts.endings == {"status_5xx": 6}


async def test_sweeping_goes_round_in_steps(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher_module, "DELIVERY_SWEEP_ENDPOINTS_MAX", 2)
    urls = [f"https://receiver{number}.test/" for number in range(5)]
    for url in urls:
        await post.deliveries(await post.endpoint(url), 3)
    dispatcher = post.dispatcher()
    assert [await dispatcher.sweep() for _ in range(3)] == [True, True, False]
    assert dispatcher.lanes.behind == 5
    while await dispatcher.claim_batch():
        await dispatcher.settle()
    assert [len(post.receivers.to(url)) for url in urls] == [3] * 5
    assert not await dispatcher.sweep()
    assert dispatcher.lanes.behind == 0


async def test_a_failed_claim_is_tried_again(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher_module, "_PAUSE_SECONDS", 0.01)
    endpoint = await post.endpoint()
    told, _swept = await post.deliveries(endpoint, 2)
    dispatcher = post.dispatcher()
    post.stream.tell(told, endpoint)
    dispatcher.hear(await post.stream.read(1))
    await post.world.connection.execute("ALTER TABLE deliveries RENAME TO away")
    with pytest.raises(DatabaseUnavailableError):
        await dispatcher.claim_batch()
    assert (dispatcher.lanes.under_way, dispatcher.lanes.behind) == (0, 1)
    dispatcher.start()
    await eventually(lambda: dispatcher.counts.failures)
    await post.world.connection.execute("ALTER TABLE away RENAME TO deliveries")
    await eventually(lambda: len(post.receivers.requests) == 2)
    await dispatcher.stop()
    assert await post.states() == {"delivered": 2}


async def test_endings_wait_for_the_database(post: Post) -> None:
    (delivery,) = await post.deliveries(await post.endpoint())
    dispatcher = post.dispatcher()
    await dispatcher.sweep()
    await dispatcher.claim_batch()
    await post.world.connection.execute("ALTER TABLE delivery_attempts RENAME TO away")
    settled = asyncio.create_task(dispatcher.settle())
    await eventually(lambda: post.receivers.requests)
    done, _ = await asyncio.wait([settled], timeout=0.1)
    assert not done
    await post.world.connection.execute("ALTER TABLE away RENAME TO delivery_attempts")
    await settled
    assert await post.attempts(delivery) == [(1, 200, None)]


async def test_endings_that_cannot_be_written_are_given_up_and_counted(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher_module, "RECORD_ATTEMPTS", 2)
    monkeypatch.setattr(dispatcher_module, "_RECORD_PAUSE_SECONDS_MIN", 0.0)
    (delivery,) = await post.deliveries(await post.endpoint())
    dispatcher = post.dispatcher()
    await dispatcher.sweep()
    await dispatcher.claim_batch()
    await post.world.connection.execute("ALTER TABLE delivery_attempts RENAME TO away")
    await dispatcher.settle()
    await post.world.connection.execute("ALTER TABLE away RENAME TO delivery_attempts")
    assert dispatcher.counts.unrecorded == 1
    post.clock.forward(60)
    await work(dispatcher)
    assert await post.attempts(delivery) == [(1, None, "lost"), (2, 200, None)]


async def test_stopping_waits_for_answers_and_then_cuts_off(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher_module, "DISPATCHER_STOP_SECONDS", 0.3)
    slow, stuck = "https://slow.test/", "https://stuck.test/"
    for url in (slow, stuck):
        post.receivers.hanging[url] = asyncio.Event()
    (first,) = await post.deliveries(await post.endpoint(slow))
    (second,) = await post.deliveries(await post.endpoint(stuck))
    dispatcher = post.dispatcher()
    dispatcher.start()
    await eventually(lambda: len(post.receivers.requests) == 2)
    asyncio.get_running_loop().call_later(0.05, post.receivers.hanging[slow].set)
    await dispatcher.stop()
    assert await post.attempts(first) == [(1, 200, None)]
    assert await post.attempts(second) == [(1, None, "interrupted")]
    assert (await post.row(second))["state"] == "pending"
    assert dispatcher.lanes.under_way == 0


async def test_a_fault_in_one_attempt_stays_with_it(post: Post) -> None:
    def fault() -> Received:
        raise ZeroDivisionError

    post.receivers.answers["https://odd.test/"] = fault
    (odd,) = await post.deliveries(await post.endpoint("https://odd.test/"))
    (plain,) = await post.deliveries(await post.endpoint())
    dispatcher = post.dispatcher()
    await work(dispatcher)
    assert await post.attempts(odd) == []
    assert (await post.row(plain))["state"] == "delivered"
    post.receivers.answers.clear()
    post.clock.forward(60)
    await work(dispatcher)
    assert await post.attempts(odd) == [(1, None, "lost"), (2, 200, None)]


async def test_a_wake_up_that_comes_while_its_delivery_is_being_found(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = await post.endpoint()
    (delivery,) = await post.deliveries(endpoint)
    dispatcher = post.dispatcher()
    await dispatcher.sweep()
    claim = dispatcher._book.claim

    async def overtaken(*asked: Any) -> Any:
        post.stream.tell(delivery, endpoint)
        dispatcher.hear(await post.stream.read(10))
        return await claim(*asked)

    with monkeypatch.context() as patched:
        patched.setattr(dispatcher._book, "claim", overtaken)
        assert await dispatcher.claim_batch()
    await eventually(lambda: post.stream.acknowledged)
    assert await dispatcher.claim_batch()
    assert len(post.receivers.requests) == 1
    assert len(dispatcher.lanes) == 0, "every place has been given back"


@pytest.mark.parametrize(("claimed_seconds", "pause"), [(0.001, 0.01), (0.02, 0.1), (1.0, 0.5)])
def test_it_rests_five_times_as_long_as_a_claim_took(claimed_seconds: float, pause: float) -> None:
    """What is behind may not take the database's time from decisions."""
    assert dispatcher_module._pause_after(claimed_seconds) == pytest.approx(pause)
