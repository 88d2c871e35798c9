"""The request queue processes messages in order, in batches, one batch in each iteration of the loop."""

from __future__ import annotations

import asyncio

import pytest

from actors.network.request_queue import BATCH_MIN, RequestQueue

SENDER = "a network"


async def until_empty(queue: RequestQueue[str]) -> None:
    """Let the loop run until the queue is empty."""
    while len(queue):  # noqa: ASYNC110 - iterations of the loop are counted
        await asyncio.sleep(0)


def payload(number: int) -> bytes:
    return str(number).encode()


async def test_each_iteration_processes_one_batch() -> None:
    processed: list[bytes] = []
    queue: RequestQueue[str] = RequestQueue(lambda _sender, payload, _arrived: processed.append(payload))
    for number in range(2 * BATCH_MIN + 1):
        queue.add(SENDER, payload(number))
    progress = []
    while len(queue):
        await asyncio.sleep(0)
        progress.append(len(processed))
    assert processed == [payload(number) for number in range(2 * BATCH_MIN + 1)]
    assert progress == [BATCH_MIN, 2 * BATCH_MIN, 2 * BATCH_MIN + 1]


async def test_message_added_during_a_batch_is_processed_last() -> None:
    processed: list[bytes] = []

    def process(sender: str, payload: bytes, _arrived: float) -> None:
        processed.append(payload)
        if payload == b"first":
            queue.add(sender, b"third")

    queue: RequestQueue[str] = RequestQueue(process)
    queue.add(SENDER, b"first")
    queue.add(SENDER, b"second")
    await until_empty(queue)
    assert processed == [b"first", b"second", b"third"]


async def test_message_keeps_its_arrival_time() -> None:
    loop = asyncio.get_running_loop()
    arrivals: list[float] = []
    queue: RequestQueue[str] = RequestQueue(lambda _sender, _payload, arrived: arrivals.append(arrived))
    before = loop.time()
    queue.add(SENDER, b"")
    after = loop.time()
    await asyncio.sleep(0.01)
    assert before <= arrivals[0] <= after


async def test_exception_in_one_message_does_not_stop_the_others() -> None:
    processed: list[bytes] = []
    faults: list[object] = []

    def process(_sender: str, payload: bytes, _arrived: float) -> None:
        if payload == b"bad":
            raise ValueError
        processed.append(payload)

    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
    queue: RequestQueue[str] = RequestQueue(process)
    for each in (b"first", b"bad", b"last"):
        queue.add(SENDER, each)
    await until_empty(queue)
    assert processed == [b"first", b"last"]
    assert [type(fault) for fault in faults] == [ValueError]


async def test_flush_processes_all_messages_at_once() -> None:
    processed: list[bytes] = []
    queue: RequestQueue[str] = RequestQueue(lambda _sender, payload, _arrived: processed.append(payload))
    for number in range(3 * BATCH_MIN):
        queue.add(SENDER, payload(number))
    queue.flush()
    assert processed == [payload(number) for number in range(3 * BATCH_MIN)]
    await asyncio.sleep(0)
    assert len(processed) == 3 * BATCH_MIN


@pytest.mark.parametrize("length", [1, BATCH_MIN])
async def test_emptied_queue_processes_new_messages(length: int) -> None:
    processed: list[bytes] = []
    queue: RequestQueue[str] = RequestQueue(lambda _sender, payload, _arrived: processed.append(payload))
    for _ in range(2):
        for number in range(length):
            queue.add(SENDER, payload(number))
        await until_empty(queue)
    assert len(processed) == 2 * length
