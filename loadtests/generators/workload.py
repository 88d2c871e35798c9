"""The fields that all loads share, so that every system decides the same authorizations."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from loadtests.figures import Samples

T = TypeVar("T")

AMOUNT_MINOR: Final = 100
SALE: Final[dict[str, Any]] = {
    "amount_minor": AMOUNT_MINOR,
    "currency": "EUR",
    "mcc": "5411",
    "merchant_name": "Corner Grocer",
    "merchant_country": "IE",
    "channel": "pos",
}
"""The fields that all spends share, by the names of ``engine.commands.Authorize``."""
CONTROLS: Final[tuple[dict[str, Any], ...]] = (
    {"kind": "mcc_allow", "values": ["5411", "5812", "5912"]},
    {"kind": "country_deny", "values": ["KP", "IR"]},
    {"kind": "per_txn_cap", "amount": "500.00"},
    {"kind": "per_day_cap", "count": 2_000_000_000},
    {"kind": "per_day_amount_cap", "amount": "900000000.00"},
)
"""Typical controls. No benchmark reaches the caps, and the counters still run."""
SILENT_SALE: Final[dict[str, Any]] = SALE | {"endpoint_silent": True}
"""The same for a programme whose own endpoint stays silent: every spend stands in."""
AMOUNT: Final = "1.00"
"""The same amount on the API."""
FUNDS: Final = "1000000000.00"
"""Funds loaded onto each card: enough that no spend of a benchmark is declined."""
_DRAWN: Final = 10_007


class Card(msgspec.Struct, frozen=True):
    """A card as a terminal reads it. Its number is never printed."""

    card_id: str
    pan: str
    expiry: str

    def __repr__(self) -> str:
        return f"Card({self.card_id})"


class Load(Protocol):
    """A load on a system. Call ``start`` and ``stop`` once each."""

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that generate it."""

    @property
    def counts_as_server(self) -> bool:
        """Whether those processes do work of the measured system, and so count as its servers."""

    async def start(self) -> None:
        """Begin."""

    async def stop(self) -> Samples:
        """Stop sending, wait for open requests, and return the samples."""


def drawn(things: Sequence[T], weights: Sequence[float] | None = None) -> Iterator[T]:
    """An endless sequence of ``things``, drawn by ``weights`` (default: uniformly). The draws are made in
    advance, because a generator that shares the machine must be cheap."""
    numbers = random.Random(len(things)).choices(range(len(things)), weights, k=_DRAWN)
    while True:
        for number in numbers:
            yield things[number]
