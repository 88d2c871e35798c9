"""The answers to card testing: beyond the limit of their sender (``probe_limiter``), they leave later.

A delay costs a sender of guessed numbers time for each guess. It never exceeds the deadline of the request.
"""

from __future__ import annotations

import asyncio

from actors.network.exchange import Exchange
from actors.network.probe_limiter import ProbeLimiter
from actors.network.requester import DelayedRequester
from engine.commands import Authorize
from engine.iso8583.respond import CARD_NOT_FOUND, SUSPECTED_FRAUD
from engine.limits import PROBES_DELAYED_MAX


class ProbeDelays:
    """Counts unknown cards and wrong values in ``limiter``, and delays the answers beyond its limit."""

    def __init__(
        self, limiter: ProbeLimiter, *, link: str | None, delay_seconds: float, deadline_seconds: float
    ) -> None:
        """``link``: the name of a link whose connections count as one sender; ``None``: each address is one.
        ``deadline_seconds``: of a request, from its arrival."""
        self.delayed = 0
        """Answers that have not left yet."""
        self._limiter = limiter
        self._link = link
        self._delay_seconds = delay_seconds
        self._deadline_seconds = deadline_seconds

    def unknown_card(self, exchange: Exchange) -> str:
        """Count a card that does not exist. Returns the DE39 of its answer."""
        if self._limiter.unknown_card(self._source_of(exchange), exchange.wire.acquirer_id):
            return CARD_NOT_FOUND
        self._delay(exchange)
        return SUSPECTED_FRAUD

    def wrong_value(self, exchange: Exchange) -> None:
        """Count a wrong value. Beyond the limit the owner still decides, and its decline leaves later."""
        if not self._limiter.wrong_value(self._source_of(exchange), exchange.wire.acquirer_id):
            self._delay(exchange)

    def _source_of(self, exchange: Exchange) -> str:
        """The sender, as the limiter tells senders apart."""
        return exchange.requester.source if self._link is None else f"link {self._link}"

    def _delay(self, exchange: Exchange) -> None:
        """Delay the answer, unless ``PROBES_DELAYED_MAX`` answers are delayed already."""
        if self.delayed >= PROBES_DELAYED_MAX:
            return
        self.delayed += 1
        due = asyncio.get_running_loop().time() + self._delay_seconds
        last = exchange.arrived + self._deadline_seconds
        exchange.requester = DelayedRequester(exchange.requester, min(due, last), self._delay_over)

    def _delay_over(self) -> None:
        self.delayed -= 1


def has_wrong_value(command: Authorize) -> bool:
    """Whether the message presented a CVV2, CVV1 or expiry that is not its card's."""
    return "mismatch" in (command.cvv2, command.cvv1, command.expiry)
