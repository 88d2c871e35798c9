"""Six attempts, each at its place in the schedule, whatever fails, stands still or is killed (spec 6.1)."""

from __future__ import annotations

import asyncio

import pytest

from actors.egress.client import Received
from actors.webhooks.delivery import Claim, answered, unanswered
from engine.webhooks.schedule import OFFSETS_SECONDS
from tests.actors.outbox.database import NOW_MS
from tests.actors.webhooks.support import Answer, Post, failing, status, work

URL = "https://receiver.test/hook"


async def walk(post: Post, seconds: float = 2 * 86_400) -> list[float]:
    """Go from instant to instant at which something could happen, and a millisecond before each; when
    requests came, in seconds from the first."""
    dispatcher = post.dispatcher()
    end_ms = post.clock.at_ms + round(seconds * 1000)
    for offset in (*OFFSETS_SECONDS, seconds):
        for early_ms in (1, 0):
            at_ms = NOW_MS + offset * 1000 - early_ms
            post.clock.at_ms = max(post.clock.at_ms, min(round(at_ms), end_ms))
            await work(dispatcher)
    return [(request.at_ms - NOW_MS) / 1000 for request in post.receivers.requests]


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
async def test_six_attempts_at_their_places_and_no_more(
    post: Post, answer: Answer, recorded: tuple[int | None, str | None]
) -> None:
    post.receivers.answers[URL] = answer
    (delivery,) = await post.deliveries(await post.endpoint())
    assert await walk(post) == [float(offset) for offset in OFFSETS_SECONDS]
    assert await post.attempts(delivery) == [(number, *recorded) for number in range(1, 7)]
    row = await post.row(delivery)
    assert (row["state"], row["failure"], row["next_attempt_at"]) == ("failed", "attempts_exhausted", None)
    # The same event on every attempt, to the byte.
    assert len({request.body for request in post.receivers.requests}) == 1


@pytest.mark.parametrize("successful", [1, 2, 5, 6])
async def test_the_first_success_ends_it(post: Post, successful: int) -> None:
    def answer() -> Received:
        return Received(204 if len(post.receivers.requests) == successful else 503, b"", False)

    post.receivers.answers[URL] = answer
    (delivery,) = await post.deliveries(await post.endpoint())
    assert len(await walk(post)) == successful
    row = await post.row(delivery)
    assert (row["state"], row["failure"], row["attempts"]) == ("delivered", None, successful)


@pytest.mark.parametrize("killed", [1, 3, 6])
async def test_a_killed_dispatchers_attempt_counts_and_the_next_keeps_its_place(
    post: Post, killed: int
) -> None:
    post.receivers.answers[URL] = status(500)
    (delivery,) = await post.deliveries(await post.endpoint())
    dispatcher, victim = post.dispatcher(), post.book("victim")
    for number, offset in enumerate(OFFSETS_SECONDS, start=1):
        post.clock.at_ms = NOW_MS + offset * 1000
        if number == killed:
            endpoint = await post.world.connection.fetchval("SELECT endpoint_id::text FROM deliveries")
            claimed = await victim.claim([], {endpoint: 1})
            assert [claim.number for claim in claimed.claims] == [killed]
        else:
            await work(dispatcher)
    post.clock.forward(60)
    await work(dispatcher)
    expected = [(number, None, "lost") if number == killed else (number, 500, None) for number in range(1, 7)]
    assert await post.attempts(delivery) == expected
    assert len(post.receivers.requests) == 5
    row = await post.row(delivery)
    assert (row["state"], row["failure"], row["attempts"]) == ("failed", "attempts_exhausted", 6)


async def test_never_more_than_six_though_every_dispatcher_is_killed(post: Post) -> None:
    (delivery,) = await post.deliveries(await post.endpoint())
    endpoint = str((await post.row(delivery))["endpoint_id"])
    book = post.book()
    begun = 0
    for _ in range(20):
        begun += len((await book.claim([delivery], {endpoint: 5})).claims)
        post.clock.forward(86_400)
    assert begun == 6
    assert [error for _, _, error in await post.attempts(delivery)] == ["lost"] * 6
    assert (await post.row(delivery))["state"] == "failed"


async def test_who_wakes_up_late_tells_the_truth(post: Post) -> None:
    endpoint = await post.endpoint()
    first, second = await post.deliveries(endpoint, 2)
    book = post.book()
    claims = {claim.delivery_id: claim for claim in (await book.claim([first, second], {})).claims}
    post.clock.forward(60)
    later = {claim.delivery_id: claim for claim in (await book.claim([first, second], {})).claims}
    assert [error for _, _, error in await post.attempts(first)] == ["lost"]
    await book.record([answered(claims[first], 5, Received(200, b"", False))])
    await book.record([unanswered(claims[second], 10_000, "timeout")])
    assert await post.attempts(first) == [(1, 200, None)]
    assert await post.attempts(second) == [(1, None, "timeout")]
    # Delivered is delivered, whatever the attempt that is under way will say.
    await book.record([answered(later[first], 5, Received(500, b"", False))])
    assert (await post.row(first))["state"] == "delivered"
    row = await post.row(second)
    assert (row["state"], row["attempts"]) == ("pending", 2)


async def test_a_success_counts_beside_a_last_failure(post: Post) -> None:
    (delivery,) = await post.deliveries(await post.endpoint())
    book = post.book()
    claims: list[Claim] = []
    for _ in range(6):
        claims += (await book.claim([delivery], {})).claims
        post.clock.forward(86_400)
    await book.record(
        [
            unanswered(claims[5], 1, "connect"),
            answered(claims[4], 1, Received(200, b"", False)),
            unanswered(claims[3], 1, "connect"),
        ]
    )
    assert (await post.row(delivery))["state"] == "delivered"
    assert len(await post.attempts(delivery)) == 6


async def test_after_a_standstill_attempts_do_not_come_in_one_burst(post: Post) -> None:
    post.receivers.answers[URL] = status(500)
    await post.deliveries(await post.endpoint())
    dispatcher = post.dispatcher()
    await work(dispatcher)
    post.clock.forward(3 * 3600)
    for _ in range(120):
        await work(dispatcher)
        post.clock.forward(1)
    times = [(request.at_ms - NOW_MS) / 1000 for request in post.receivers.requests]
    assert times == [0, 10_800, 10_830, 10_860, 10_890]
    post.clock.at_ms = NOW_MS + 86_400_000
    await work(dispatcher)
    assert len(post.receivers.requests) == 6


async def test_a_claim_that_stood_still_is_not_sent(post: Post) -> None:
    (delivery,) = await post.deliveries(await post.endpoint())
    dispatcher = post.dispatcher()
    await dispatcher.sweep()
    assert await dispatcher.claim_batch()
    # The process is stopped here, after the claim and before the first byte.
    post.clock.forward(20)
    await dispatcher.settle()
    assert post.receivers.requests == []
    assert dispatcher.lanes.under_way == 0
    post.clock.forward(40)
    await work(dispatcher)
    assert await post.attempts(delivery) == [(1, None, "lost"), (2, 200, None)]


async def test_dispatchers_share_without_sending_twice(post: Post) -> None:
    endpoints = [await post.endpoint(f"https://receiver{number}.test/") for number in range(5)]
    for endpoint in endpoints:
        await post.deliveries(endpoint, 60)
    dispatchers = [post.dispatcher(f"dispatcher-{number}") for number in range(3)]
    await asyncio.gather(*(work(dispatcher) for dispatcher in dispatchers))
    for dispatcher in dispatchers:
        await work(dispatcher)
    assert await post.states() == {"delivered": 300}
    assert len({request.body + request.url.encode() for request in post.receivers.requests}) == 300
    assert len(post.receivers.requests) == 300
