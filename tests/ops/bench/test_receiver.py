"""The benchmark's receiver reads requests in any segmentation and measures the age of their events."""

from __future__ import annotations

import time
from typing import Any

import pytest

from engine.instant import to_text
from ops.bench.receiver import ReceiverConnection, Tally


class Transport:
    """Records written bytes."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data


def request(path: str, age_ms: int) -> bytes:
    body = (
        f'{{"id":"x","type":"t","created_at":"{to_text(time.time_ns() // 1_000_000 - age_ms)}","data":{{}}}}'
    )
    head = f"POST {path} HTTP/1.1\r\nHost: receiver\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
def tally() -> Tally:
    return Tally()


@pytest.fixture
def connection(tally: Tally, transport: Any) -> ReceiverConnection:
    connection = ReceiverConnection(tally)
    connection.connection_made(transport)
    return connection


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_requests_are_answered_however_they_are_segmented(
    connection: ReceiverConnection, tally: Tally, transport: Transport, size: int
) -> None:
    sent = request("/endpoint/1", 400) + request("/endpoint/2", 400)
    for start in range(0, len(sent), size):
        connection.data_received(sent[start : start + size])
    assert transport.written.count(b"HTTP/1.1 200 OK") == 2
    assert len(tally.arrived) == 2
    assert all(400 <= age < 60_000 for age in tally.age_ms)


def test_hanging_requests_are_counted_and_not_answered(
    connection: ReceiverConnection, tally: Tally, transport: Transport
) -> None:
    connection.data_received(request("/hang", 0))
    assert (tally.hung, tally.arrived, transport.written) == (1, [], b"")
