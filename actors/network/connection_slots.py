"""Which connections an edge keeps when there are more than it has places for.

A new connection is never kept out by idle ones. At the limit of its address, one of that address is closed
for it; at the limit of all, one of the crowd. The order: connections that have sent nothing, then those
that have not named an issued card, then the others; within each, those of the address with most connections
first, the longest quiet first. A connection with open requests is never closed for another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address
from typing import Final, Generic, Protocol, TypeVar

SILENT: Final = 0
"""Standing of a connection that has sent no request yet."""
SPOKEN: Final = 1
"""... that has sent requests."""
RECOGNIZED: Final = 2
"""... that has named an issued card."""

_PREFIX_V6: Final = 64


class SlotHolder(Protocol):
    """A connection as ``Places`` looks at it."""

    standing: int
    heard_at: float
    """When its last frame came, in any clock that all occupants share."""

    @property
    def source(self) -> str:
        """Where it comes from (``source_of``)."""

    @property
    def busy(self) -> bool:
        """Whether it has open requests."""


Who = TypeVar("Who", bound=SlotHolder)


class ConnectionSlots(Generic[Who]):
    """At most ``count_max`` connections, and at most ``per_source_max`` of one source."""

    def __init__(self, count_max: int, per_source_max: int) -> None:
        self._count_max = count_max
        self._per_source_max = per_source_max
        self._taken: dict[Who, str] = {}
        self._by_source: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._taken)

    def __iter__(self) -> Iterator[Who]:
        return iter(self._taken)

    def admit(self, newcomer: Who) -> Who | None:
        """Gives ``newcomer`` a place; returns the connection to be closed, which is ``newcomer`` itself when
        all others are busy."""
        source = newcomer.source
        victim: Who | None = None
        if self._by_source[source] >= self._per_source_max:
            victim = self._least([each for each, of in self._taken.items() if of == source])
        elif len(self._taken) >= self._count_max:
            victim = self._least(list(self._taken))
        else:
            self._take(newcomer, source)
            return None
        if victim is None:
            return newcomer
        self.leave(victim)
        self._take(newcomer, source)
        return victim

    def leave(self, occupant: Who) -> None:
        """Frees the place of ``occupant``; a second time is harmless."""
        source = self._taken.pop(occupant, None)
        if source is None:
            return
        self._by_source[source] -= 1
        if not self._by_source[source]:
            del self._by_source[source]

    def _take(self, newcomer: Who, source: str) -> None:
        self._taken[newcomer] = source
        self._by_source[source] += 1

    def _least(self, candidates: list[Who]) -> Who | None:
        return min(
            (each for each in candidates if not each.busy),
            key=lambda each: (each.standing, -self._by_source[self._taken[each]], each.heard_at),
            default=None,
        )


def source_of(host: str) -> str:
    """The address that connections are counted by: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return f"{IPv6Address(int(address) >> _PREFIX_V6 << _PREFIX_V6)}/{_PREFIX_V6}"
    return str(address)
