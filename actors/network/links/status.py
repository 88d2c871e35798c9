"""The state of a link at one edge, as `stanchion links` shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec


class LinkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Counters are totals since the edge started."""

    name: str
    edge: str = ""
    """Name of the edge process."""
    direction: str
    mode: str
    address: str
    tls: bool
    state: str
    connections: int
    connections_wanted: int | None
    """Connections that the edge keeps open; ``None`` for a link that listens."""
    signed_on: int
    """Connections on which one side has signed on."""
    sign_on: str
    in_flight: int
    per_minute: dict[str, int]
    """Answers of the last minute by MTI and response code (``0110 00``)."""
    answers: dict[str, int]
    refused: dict[str, int]
    """Refused messages and connections by reason."""
    bytes_received: int
    last_error: str | None
    last_error_ms: int
    """Unix time of ``last_error`` in milliseconds."""


METHOD: Final = "links"
"""The call of an edge process that returns the states of its links."""

_decoder: msgspec.msgpack.Decoder[list[LinkStatus]] = msgspec.msgpack.Decoder(list[LinkStatus])


def encode_statuses(statuses: Sequence[LinkStatus]) -> bytes:
    """The answer to ``METHOD``."""
    return msgspec.msgpack.encode(statuses)


def decode_statuses(answer: bytes) -> list[LinkStatus]:
    """The statuses in an answer to ``METHOD``."""
    return _decoder.decode(answer)
