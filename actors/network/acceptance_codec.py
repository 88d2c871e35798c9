"""The payload and the answer of the simulated network's call ``accept``, as bytes. API servers call it, and
do not load the network for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from engine.simulation import Acceptance, SimulationRequest

_encode: Final = msgspec.msgpack.Encoder().encode
_requests: Final = msgspec.msgpack.Decoder(list[SimulationRequest])
_acceptances: Final[msgspec.msgpack.Decoder[list[Acceptance] | None]] = msgspec.msgpack.Decoder(
    list[Acceptance] | None
)


def encode_requests(requests: Sequence[SimulationRequest]) -> bytes:
    """The payload."""
    return _encode(requests)


def decode_requests(payload: bytes) -> list[SimulationRequest]:
    """The requests of a payload."""
    return _requests.decode(payload)


def encode_acceptances(acceptances: Sequence[Acceptance] | None) -> bytes:
    """The answer; ``None`` while the database is unavailable."""
    return _encode(acceptances)


def decode_acceptances(answer: bytes) -> list[Acceptance] | None:
    """The acceptances of an answer."""
    return _acceptances.decode(answer)
