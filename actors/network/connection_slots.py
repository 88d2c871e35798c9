"""The limits of open connections, in total and for each source address, and which connection gives way.

Idle connections never keep a new one out. At the limit of an address, the edge closes a connection of that
address; at the total limit, any connection. Order of eviction: connections without a request, then
connections that have not named an issued card, then the others; within each group the addresses with most
connections first, and of one address the connection that has been quiet longest. A connection with open
requests is never closed for another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address
from typing import Final, Generic, Protocol, TypeVar

NO_REQUEST: Final = 0
"""Eviction rank of a connection that has sent no request."""
REQUESTED: Final = 1
"""Eviction rank of a connection that has sent requests, but named no issued card."""
CARD_RECOGNIZED: Final = 2
"""Eviction rank of a connection that has named an issued card."""

_PREFIX_V6: Final = 64


class SlotHolder(Protocol):
    """A connection as ``ConnectionSlots`` sees it."""

    rank: int
    """Eviction rank; lower ones are closed first."""
    received_at: float
    """Arrival of the last frame, in a clock that all connections share."""

    @property
    def source(self) -> str:
        """Address of the peer (``source_of``)."""

    @property
    def busy(self) -> bool:
        """Whether it has open requests."""


Holder = TypeVar("Holder", bound=SlotHolder)


class ConnectionSlots(Generic[Holder]):
    """At most ``count_max`` connections, and at most ``per_source_max`` of one source."""

    def __init__(self, count_max: int, per_source_max: int) -> None:
        self._count_max = count_max
        self._per_source_max = per_source_max
        self._holders: dict[Holder, str] = {}
        self._by_source: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._holders)

    def __iter__(self) -> Iterator[Holder]:
        return iter(self._holders)

    def admit(self, newcomer: Holder) -> Holder | None:
        """Assign a slot to ``newcomer``. Returns the connection to close, if any: the evicted one, or
        ``newcomer`` itself when all others are busy."""
        source = newcomer.source
        evicted: Holder | None = None
        if self._by_source[source] >= self._per_source_max:
            evicted = self._lowest([each for each, of in self._holders.items() if of == source])
        elif len(self._holders) >= self._count_max:
            evicted = self._lowest(list(self._holders))
        else:
            self._assign(newcomer, source)
            return None
        if evicted is None:
            return newcomer
        self.release(evicted)
        self._assign(newcomer, source)
        return evicted

    def release(self, holder: Holder) -> None:
        """Free the slot of ``holder``. Safe to call twice."""
        source = self._holders.pop(holder, None)
        if source is None:
            return
        self._by_source[source] -= 1
        if not self._by_source[source]:
            del self._by_source[source]

    def _assign(self, newcomer: Holder, source: str) -> None:
        self._holders[newcomer] = source
        self._by_source[source] += 1

    def _lowest(self, candidates: list[Holder]) -> Holder | None:
        return min(
            (each for each in candidates if not each.busy),
            key=lambda each: (each.rank, -self._by_source[self._holders[each]], each.received_at),
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
