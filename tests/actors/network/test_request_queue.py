"""What has been let in is worked on in its order, a little in each turn of the loop, and all of it."""

from __future__ import annotations

import asyncio

import pytest

from actors.network.request_queue import AT_ONCE, RequestQueue

SENDER = "a network"


async def emptied(intake: RequestQueue[str]) -> None:
    """Turns of the loop until nothing waits any more."""
    while len(intake):  # noqa: ASYNC110 - it is turns that count here
        await asyncio.sleep(0)


def payload(number: int) -> bytes:
    return str(number).encode()


async def test_a_little_in_each_turn() -> None:
    worked: list[bytes] = []
    intake: RequestQueue[str] = RequestQueue(lambda _sender, payload, _since: worked.append(payload))
    for number in range(2 * AT_ONCE + 1):
        intake.add(SENDER, payload(number))
    progress = []
    while len(intake):
        await asyncio.sleep(0)
        progress.append(len(worked))
    assert worked == [payload(number) for number in range(2 * AT_ONCE + 1)]
    assert progress == [AT_ONCE, 2 * AT_ONCE, 2 * AT_ONCE + 1]


async def test_what_comes_meanwhile_comes_after() -> None:
    worked: list[bytes] = []

    def work(sender: str, payload: bytes, _since: float) -> None:
        worked.append(payload)
        if payload == b"first":
            intake.add(sender, b"third")

    intake: RequestQueue[str] = RequestQueue(work)
    intake.add(SENDER, b"first")
    intake.add(SENDER, b"second")
    await emptied(intake)
    assert worked == [b"first", b"second", b"third"]


async def test_time_counts_from_when_it_came_in() -> None:
    loop = asyncio.get_running_loop()
    since: list[float] = []
    intake: RequestQueue[str] = RequestQueue(lambda _sender, _payload, at: since.append(at))
    before = loop.time()
    intake.add(SENDER, b"")
    after = loop.time()
    await asyncio.sleep(0.01)
    assert before <= since[0] <= after


async def test_one_that_goes_wrong_keeps_nobody() -> None:
    worked: list[bytes] = []
    faults: list[object] = []

    def work(_sender: str, payload: bytes, _since: float) -> None:
        if payload == b"bad":
            raise ValueError
        worked.append(payload)

    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
    intake: RequestQueue[str] = RequestQueue(work)
    for each in (b"first", b"bad", b"last"):
        intake.add(SENDER, each)
    await emptied(intake)
    assert worked == [b"first", b"last"]
    assert [type(fault) for fault in faults] == [ValueError]


async def test_finishing_waits_for_no_turn() -> None:
    worked: list[bytes] = []
    intake: RequestQueue[str] = RequestQueue(lambda _sender, payload, _since: worked.append(payload))
    for number in range(3 * AT_ONCE):
        intake.add(SENDER, payload(number))
    intake.finish()
    assert worked == [payload(number) for number in range(3 * AT_ONCE)]
    await asyncio.sleep(0)
    assert len(worked) == 3 * AT_ONCE


@pytest.mark.parametrize("length", [1, AT_ONCE])
async def test_it_begins_again_when_it_has_been_empty(length: int) -> None:
    worked: list[bytes] = []
    intake: RequestQueue[str] = RequestQueue(lambda _sender, payload, _since: worked.append(payload))
    for _ in range(2):
        for number in range(length):
            intake.add(SENDER, payload(number))
        await emptied(intake)
    assert len(worked) == 2 * length
