"""The requests without an answer: each gets exactly one, at the latest at its deadline.

All requests have the same deadline. If the owner's reply arrives in time, the network gets it. At the
deadline the network gets 91.
"""

from __future__ import annotations

import asyncio

import structlog

from actors.metrics import Histogram
from actors.network.database import DatabaseUnavailableError
from actors.network.deadlines import Deadlines
from actors.network.exchange import Exchange
from actors.network.respondent_counts import RespondentCounts
from actors.network.screen import Screen
from engine.iso8583.message import Message
from engine.iso8583.respond import DEADLINE_EXCEEDED, NOT_PERMITTED, SYSTEM_ERROR, refusal, replied
from engine.replies import Reply, WireAnswer

_log = structlog.get_logger(__name__)
_UNREACHABLE = (OSError, TimeoutError, MemoryError, DatabaseUnavailableError, asyncio.CancelledError)


class OpenExchanges:
    """Closes exchanges and sends their answers. ``len``: how many are open."""

    def __init__(
        self, counts: RespondentCounts, seconds: Histogram, deadline_seconds: float, screen: Screen | None
    ) -> None:
        """``seconds``: takes the time from arrival to answer. ``deadline_seconds``: from arrival."""
        self._counts = counts
        self._seconds = seconds
        self._deadline_seconds = deadline_seconds
        self._screen = screen
        self._deadlines: Deadlines[Exchange] = Deadlines(deadline_seconds, self._expire)
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, exchange: Exchange) -> bool:
        return exchange in self._deadlines

    def open(self, exchange: Exchange, since: float | None) -> None:
        """Start the deadline of ``exchange`` at ``since`` (``Deadlines.add``)."""
        self._deadlines.add(exchange, since)
        self._idle.clear()
        exchange.requester.request_started()

    def close(self, exchange: Exchange) -> bool:
        """Close ``exchange``. Returns whether it was open."""
        seconds = self._deadlines.done(exchange)
        if seconds is None:
            return False
        self._seconds.observe(seconds)
        # As in ``_expire``: a function of both would be one more call for every message.
        exchange.requester.request_finished()
        if not len(self._deadlines):
            self._idle.set()
        return True

    def answer(self, exchange: Exchange, reply: Reply) -> bool:
        """Send the owner's reply to an exchange that was open until now. Returns whether the network got it:
        a reply that cannot become a message of the profile is a bug, and the network gets 96."""
        if self._screen is not None and _is_not_permitted(reply):
            self._screen.count_owner_refusal(exchange.message)
        try:
            response = replied(exchange.message, reply, exchange.requester.profile)
            exchange.requester.answer(response)
        except Exception as fault:  # noqa: BLE001 - the network must get an answer after any failure
            self._counts.failed += 1
            _log.error("answer_fault", error=type(fault).__name__)
            _send(exchange, refusal(exchange.message, SYSTEM_ERROR, exchange.requester.profile))
            return False
        self._counts.answered += 1
        _end_span(exchange, response)
        return True

    def refuse(self, exchange: Exchange, response_code: str) -> None:
        """Close ``exchange`` with this DE39, if it is open."""
        if self.close(exchange):
            _send(exchange, refusal(exchange.message, response_code, exchange.requester.profile))

    def fail(self, exchange: Exchange, failure: BaseException) -> None:
        """Answer 91 if the owner or memory is unavailable, since a repeat may succeed, and 96 after a bug."""
        self._counts.failed += 1
        unreachable = isinstance(failure, _UNREACHABLE)
        if not unreachable:
            # The type only: the text of a driver's exception may hold values of rows.
            _log.error("request_fault", error=type(failure).__name__)
        self.refuse(exchange, DEADLINE_EXCEEDED if unreachable else SYSTEM_ERROR)

    async def wait_closed(self) -> None:
        """Wait until no exchange is open, at the latest at the last deadline."""
        await self._idle.wait()

    def _expire(self, exchange: Exchange) -> None:
        self._counts.expired += 1
        self._seconds.observe(self._deadline_seconds)
        exchange.requester.request_finished()
        if not len(self._deadlines):
            self._idle.set()
        _send(exchange, refusal(exchange.message, DEADLINE_EXCEEDED, exchange.requester.profile))


def _send(exchange: Exchange, response: Message) -> None:
    exchange.requester.answer(response)
    _end_span(exchange, response)


def _end_span(exchange: Exchange, response: Message) -> None:
    if exchange.span is not None:
        exchange.span.end({"iso8583.response_code": response.fields.get(39)})


def _is_not_permitted(reply: Reply) -> bool:
    return isinstance(reply, WireAnswer) and reply.response_code == NOT_PERMITTED
