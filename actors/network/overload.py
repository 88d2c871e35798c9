"""The overload of one link: original authorizations are refused with 91 while too many requests wait.

The answer to such an authorization would leave after the network's deadline, so it costs no more work: it is
refused at arrival, before it is decoded. A repeat (0101) is not refused, because its original may have been
approved.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.network.connection import EdgeConnection
from actors.network.edge_counts import EdgeCounts
from actors.network.links.mac import LinkMac
from actors.network.open_exchanges import OpenExchanges
from actors.network.request_queue import RequestQueue
from engine.iso8583.fast_decline import fast_decline
from engine.iso8583.profile import Profile
from engine.iso8583.respond import DEADLINE_EXCEEDED


class Overload:
    """Whether a link is overloaded, and the refusals of its original authorizations."""

    def __init__(
        self,
        exchanges: OpenExchanges,
        queue: RequestQueue[EdgeConnection],
        counts: EdgeCounts,
        *,
        profile: Profile,
        mac: LinkMac | None,
        open_max: int,
        quota: int | None,
        congested: Callable[[], bool],
        deferred: Callable[[], int],
        open_elsewhere: Callable[[], int] | None,
    ) -> None:
        """``quota``: the most open requests of this link. ``open_max``: the most of all links of the process.
        ``congested``, ``deferred`` and ``open_elsewhere``: as ``Edge`` gets them."""
        self._exchanges = exchanges
        self._queue = queue
        self._counts = counts
        self._profile = profile
        self._mac = mac
        self._open_max = open_max
        self._quota = quota
        self._congested = congested
        self._deferred = deferred
        self._open_elsewhere = open_elsewhere
        self._fast_decline = fast_decline(profile)
        self._refused_mti = profile.messages.response_mti(profile.messages.authorizations[0])

    def is_reached(self) -> bool:
        """Whether a new authorization must be refused."""
        waiting = len(self._exchanges) + len(self._queue)
        if self._quota is not None and waiting >= self._quota:
            self._counts.count_screened("in_flight")
            return True
        if self._open_elsewhere is not None:
            waiting += self._open_elsewhere()
        return (
            waiting >= self._open_max and waiting - self._deferred() >= self._open_max
        ) or self._congested()

    def refuse(self, connection: EdgeConnection, payload: bytes) -> bool:
        """Refuse an original authorization. Returns ``False`` for a malformed one, which must be decoded."""
        refused = self._answer(connection, payload)
        if refused is None:
            return False
        self._counts.requests += 1
        self._counts.shed += 1
        self._counts.count_answer(self._refused_mti, DEADLINE_EXCEEDED)
        connection.request_recognized()
        connection.send(refused)
        return True

    def _answer(self, connection: EdgeConnection, payload: bytes) -> bytes | None:
        refused = self._fast_decline(payload, DEADLINE_EXCEEDED)
        if refused is None or self._mac is None:
            return refused
        return self._mac.encode(self._profile.decode(refused), connection.mac_key)
