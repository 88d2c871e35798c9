"""Payloads and answers of the simulated network's calls ``accept`` and ``spend``, as bytes. API servers use
them, and do not load the network for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from engine.simulation import Acceptance, SimulationRequest, SpendOutcome, SpendRequest

_encode: Final = msgspec.msgpack.Encoder().encode
_requests: Final = msgspec.msgpack.Decoder(list[SimulationRequest])
_acceptances: Final[msgspec.msgpack.Decoder[list[Acceptance] | None]] = msgspec.msgpack.Decoder(
    list[Acceptance] | None
)
_spends: Final = msgspec.msgpack.Decoder(list[SpendRequest])
_outcomes: Final[msgspec.msgpack.Decoder[list[SpendOutcome] | None]] = msgspec.msgpack.Decoder(
    list[SpendOutcome] | None
)


def encode_requests(requests: Sequence[SimulationRequest]) -> bytes:
    """The payload of either call."""
    return _encode(requests)


def decode_requests(payload: bytes) -> list[SimulationRequest]:
    """The requests of ``accept``."""
    return _requests.decode(payload)


def encode_acceptances(acceptances: Sequence[Acceptance] | None) -> bytes:
    """The answer of ``accept``; ``None`` while the database is unavailable."""
    return _encode(acceptances)


def decode_acceptances(answer: bytes) -> list[Acceptance] | None:
    """The acceptances of an answer."""
    return _acceptances.decode(answer)


def decode_spends(payload: bytes) -> list[SpendRequest]:
    """The requests of ``spend``."""
    return _spends.decode(payload)


def encode_outcomes(outcomes: Sequence[SpendOutcome] | None) -> bytes:
    """The answer of ``spend``; ``None`` while the database is unavailable."""
    return _encode(outcomes)


def decode_outcomes(answer: bytes) -> list[SpendOutcome] | None:
    """The outcomes of an answer."""
    return _outcomes.decode(answer)
