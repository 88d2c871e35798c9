"""All links of one edge process: one ``Edge`` for each, their figures, and the operators' sign-offs.

Every link has its own connections, limits and counters. They share the limit of open requests, the limits of
card testing and the histogram of durations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, Protocol

import structlog

from actors.metrics import Figures, Histogram, Labels
from actors.network.database import DatabaseUnavailableError
from actors.network.edge import Edge
from actors.network.edge_counts import REFUSALS
from actors.network.links.entry import LinkEntry
from actors.network.links.errors import reason_of
from actors.network.links.status import LinkStatus
from actors.network.probe_limiter import ProbeLimiter
from actors.network.respondent import Respondent
from actors.periodic import PeriodicTask
from engine.limits import LINK_SIGN_OFF_POLL_SECONDS

_log = structlog.get_logger(__name__)
_SIGNED_OFF: Final = ("draining", "signed_off")


class Link(Protocol):
    """A link at this edge process: its edge, and the respondent that answers its messages."""

    @property
    def edge(self) -> Edge: ...
    @property
    def respondent(self) -> Respondent: ...


class ReadSignOffs(Protocol):
    """Reads the names of the links that operators have signed off."""

    async def __call__(self) -> Collection[str]: ...


BuildLink = Callable[[LinkEntry, Callable[[], int] | None], Link]
"""Builds one link; the second argument returns the number of open requests of the others, if any."""


class LinkSet:
    """The links of one process. ``stop`` is safe to call twice."""

    def __init__(
        self,
        entries: Sequence[LinkEntry],
        build: BuildLink,
        sign_offs: ReadSignOffs,
        probes: ProbeLimiter,
        seconds: Histogram,
        *,
        poll_seconds: float = LINK_SIGN_OFF_POLL_SECONDS,
    ) -> None:
        self._probes = probes
        self._seconds = seconds
        self._sign_offs = sign_offs
        several = len(entries) > 1
        self._links = [
            build(entry, self._open_elsewhere(index) if several else None)
            for index, entry in enumerate(entries)
        ]
        self._poller = PeriodicTask(
            "link-sign-offs",
            self._follow_sign_offs,
            poll_seconds,
            delay=poll_seconds,
            tolerated=(DatabaseUnavailableError,),
        )

    def __iter__(self) -> Iterator[Link]:
        return iter(self._links)

    async def start(self) -> None:
        """Open every link that is not signed off. Raises ``OSError`` if a port cannot be opened."""
        try:
            signed_off = await self._sign_offs()
        except DatabaseUnavailableError:
            # Without the database every message gets 91, and the next reading signs the links off.
            signed_off = ()
        try:
            for link in self._links:
                entry = link.edge.entry
                if entry.in_plain_text:
                    _log.warning("link_in_plain_text", link=entry.name, host=entry.host)
                await link.edge.start(entry.host, entry.port, signed_off=entry.name in signed_off)
        except OSError:
            # The next attempt needs the ports that this one has opened.
            await self.stop()
            raise
        self._poller.start()

    async def stop(self) -> None:
        """Answer all open requests and close all connections."""
        await self._poller.stop()
        await asyncio.gather(*(link.edge.stop() for link in self._links))

    def statuses(self) -> list[LinkStatus]:
        """The state of each link."""
        return [_status(link.edge) for link in self._links]

    def figures(self) -> Figures:
        """Figures of all links together, and of each link."""
        return self._wire_figures() | self._link_figures()

    def _wire_figures(self) -> Figures:
        edges = [link.edge.counts for link in self._links]
        requests = [link.respondent.counts for link in self._links]
        reversals = [link.respondent.late_reversals for link in self._links]
        probes = self._probes.counts
        return {
            "stanchion_wire_connections": sum(link.edge.connected for link in self._links),
            "stanchion_wire_turned_away": sum(each.refused for each in edges),
            "stanchion_wire_cut": sum(each.cut for each in edges),
            "stanchion_wire_idle": sum(each.idle for each in edges),
            "stanchion_wire_requests": sum(each.requests for each in edges),
            "stanchion_wire_malformed": sum(each.malformed for each in edges),
            "stanchion_wire_shed": sum(each.shed for each in edges) + sum(each.shed for each in requests),
            "stanchion_wire_unknown_cards": probes.unknown_cards,
            "stanchion_wire_wrong_values": probes.wrong_values,
            "stanchion_wire_probes_limited": probes.limited,
            "stanchion_wire_answered": sum(each.answered for each in requests),
            "stanchion_wire_seconds": self._seconds.figure(),
            "stanchion_wire_expired": sum(each.expired for each in requests),
            "stanchion_wire_late_approvals": sum(each.counts.late_approvals for each in reversals),
            "stanchion_wire_undone": sum(each.counts.done for each in reversals),
            "stanchion_wire_undoing": sum(each.open for each in reversals),
        }

    def _link_figures(self) -> Figures:
        answers: dict[Labels, float] = {}
        refused: dict[Labels, float] = {}
        for link in self._links:
            name, counts = link.edge.entry.name, link.edge.counts
            answers |= {(name, mti, code): count for (mti, code), count in counts.answers.items()}
            # Each series exists from the start, so that a rate counts the first refusal too.
            counted = dict.fromkeys(REFUSALS, 0) | counts.screened
            refused |= {(name, reason): count for reason, count in counted.items()}
        return {
            "stanchion_link_up": self._of_each(lambda edge: edge.state == "up"),
            "stanchion_link_signed_off": self._of_each(lambda edge: edge.state in _SIGNED_OFF),
            "stanchion_link_connections": self._of_each(lambda edge: edge.connected),
            "stanchion_link_signed_on": self._of_each(lambda edge: edge.signed_on),
            "stanchion_link_in_flight": self._of_each(lambda edge: edge.open),
            "stanchion_link_received_bytes": self._of_each(lambda edge: edge.counts.bytes_received),
            "stanchion_link_answers": answers,
            "stanchion_link_refused": refused,
        }

    def _of_each(self, figure: Callable[[Edge], float]) -> dict[Labels, float]:
        return {(link.edge.entry.name,): float(figure(link.edge)) for link in self._links}

    def _open_elsewhere(self, index: int) -> Callable[[], int]:
        def open_elsewhere() -> int:
            return sum(link.edge.open for other, link in enumerate(self._links) if other != index)

        return open_elsewhere

    async def _follow_sign_offs(self) -> None:
        signed_off = await self._sign_offs()
        for link in self._links:
            if link.edge.entry.name in signed_off:
                await link.edge.sign_off()
                continue
            try:
                await link.edge.sign_on()
            except OSError as failure:
                # Its port is taken, or its certificate is unusable; the others are not affected.
                link.edge.note_error(reason_of(failure))


def _status(edge: Edge) -> LinkStatus:
    entry, counts = edge.entry, edge.counts
    return LinkStatus(
        name=entry.name,
        direction=entry.direction,
        mode=entry.mode,
        address=f"[{entry.host}]:{entry.port}" if ":" in entry.host else f"{entry.host}:{entry.port}",
        tls=entry.tls is not None,
        state=edge.state,
        connections=edge.connected,
        connections_wanted=None if entry.listens else entry.connections,
        signed_on=edge.signed_on,
        sign_on=entry.sign_on,
        in_flight=edge.open,
        per_minute=_by_name(edge.recent_answers()),
        answers=_by_name(counts.answers),
        refused=dict(counts.screened),
        bytes_received=counts.bytes_received,
        last_error=counts.last_error,
        last_error_ms=counts.last_error_ms,
    )


def _by_name(answers: dict[tuple[str, str], int]) -> dict[str, int]:
    return {f"{mti} {code}": count for (mti, code), count in sorted(answers.items())}
