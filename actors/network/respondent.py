"""Financial requests at the edge: read the message, find the card, ask its owner, answer within the deadline.

Every class of message takes this path, and every request has one deadline (``open_exchanges``). A message and
its repeats become one command of the card's owner (``open_commands``). An authorization that is approved
after the deadline, or whose outcome stays unknown, is reversed (``late_reversals``).

A message for a card that was never issued gets 14 in every class. There is no card on which an advice or a
reversal could be recorded, and a network that stores and forwards stops at any answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from actors.ids import new_id_beside
from actors.metrics import Histogram
from actors.network.card_checks import CardChecks, KeysOf, no_keys
from actors.network.card_secrets import CardSecrets
from actors.network.cards import CardsByDigest, IssuedCard
from actors.network.exchange import Exchange, MessageCommand
from actors.network.late_reversals import LateReversals
from actors.network.open_commands import OpenCommands, Submit
from actors.network.open_exchanges import OpenExchanges
from actors.network.probe_delays import ProbeDelays, has_wrong_value
from actors.network.probe_limiter import ProbeLimiter
from actors.network.requester import DelayedRequester, Requester
from actors.network.respondent_counts import RespondentCounts
from actors.network.screen import Screen
from actors.tracing import Tracer
from engine.commands import Authorize
from engine.iso8583.card_data import DEFAULT_VERIFICATION, Verification
from engine.iso8583.content import AuthorizationRequest, Content
from engine.iso8583.content_reader import read
from engine.iso8583.cryptography import Cryptography
from engine.iso8583.elements import ANSWER_WITHHELD, ElementError
from engine.iso8583.message import Message
from engine.iso8583.respond import DEADLINE_EXCEEDED, INVALID_MESSAGE, refusal
from engine.iso8583.translate import Routed, to_command
from engine.limits import (
    AUTHORIZATION_DEADLINE_MS,
    LATE_REVERSAL_STOP_SECONDS,
    PROBE_DELAY_SECONDS,
    WITHHELD_ANSWER_MS,
)
from engine.pan import luhn_valid


class Respondent:
    """Answers each financial request exactly once, within its deadline."""

    def __init__(
        self,
        submit: Submit,
        cards: CardsByDigest,
        card_secrets: CardSecrets,
        *,
        should_shed: Callable[[str], bool] = lambda _card_id: False,
        verification: Verification = DEFAULT_VERIFICATION,
        cryptography: Cryptography | None = None,
        authentication_keys: KeysOf = no_keys,
        deadline_ms: int = AUTHORIZATION_DEADLINE_MS,
        withheld_ms: int = WITHHELD_ANSWER_MS,
        probes: ProbeLimiter | None = None,
        probe_delay_seconds: float = PROBE_DELAY_SECONDS,
        seconds: Histogram | None = None,
        live: bool = False,
        screen: Screen | None = None,
        link: str | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """``should_shed``: whether the queue of a card's owner is so long that a new authorization is
        refused. ``verification``: the policy for card data; ``cryptography``: verifies them, in software by
        default. ``live``: whether live cards are served, else test cards. ``screen``: the permissions of the
        link; ``None`` permits every message. ``link``: the name of a link whose connections count as one
        source in ``probes``, whatever their addresses."""
        self.counts = RespondentCounts()
        self.probes = probes or ProbeLimiter(time.monotonic)
        self.late_reversals = LateReversals(submit)
        self._cards = cards
        self._card_secrets = card_secrets
        self._should_shed = should_shed
        self._verification = verification
        self._checks = CardChecks(
            card_secrets,
            verification,
            cryptography=cryptography,
            authentication_keys=authentication_keys,
        )
        self._live = live
        self._screen = screen
        self._tracer = tracer
        self._withheld_seconds = withheld_ms / 1000
        deadline_seconds = deadline_ms / 1000
        self.exchanges = OpenExchanges(self.counts, seconds or Histogram(), deadline_seconds, screen)
        """The requests without an answer."""
        self._open_commands = OpenCommands(submit, self.exchanges, self.late_reversals.reverse_if_late)
        self._probe_delays = ProbeDelays(
            self.probes, link=link, delay_seconds=probe_delay_seconds, deadline_seconds=deadline_seconds
        )
        self._looked_up: dict[bytes, list[Exchange]] = {}
        """Exchanges that wait for the look-up of their card, by digest, in the order of their arrival."""
        self._look_ups: set[asyncio.Future[Any]] = set()
        """Their tasks; the event loop itself holds only weak references to them."""

    def respond(self, requester: Requester, message: Message, since: float | None = None) -> None:
        """Answer ``message`` now or later, exactly once. Its function in the requester's profile is one of
        ``content_reader.FUNCTIONS``. ``since``: its arrival in the loop's time, never earlier than that of
        the message before; now if ``None``."""
        try:
            content = read(message, self._verification, requester.profile)
        except ElementError:
            self.counts.invalid += 1
            requester.answer(refusal(message, INVALID_MESSAGE, requester.profile))
            return
        refused = None
        if self._screen is not None:
            refused = self._screen.refuse(requester.profile.to_canonical(message)[0], content)
        if refused is not None:
            requester.answer(refusal(message, refused, requester.profile))
            return
        arrived = asyncio.get_running_loop().time() if since is None else since
        exchange = Exchange(requester, message, content, arrived)
        if self._tracer is not None:
            attributes = {"iso8583.mti": message.mti, "stanchion.trace": exchange.wire.rrn}
            exchange.span = self._tracer.start("edge", kind="server", attributes=attributes)
        digest = self._card_secrets.digest(content.pan)
        self.exchanges.open(exchange, since)
        looked_up = self._looked_up.get(digest)
        if looked_up is not None:
            # Also if the card has just been found: a message must not overtake an earlier one of its card.
            looked_up.append(exchange)
            return
        card = self._cards.cached(digest)
        if card is not None:
            self._ask_owner(exchange, card)
        elif not luhn_valid(content.pan[:]):
            # Issued numbers have a valid check digit.
            self._refuse_unknown_card(exchange)
        else:
            self._look_up(exchange, digest)

    @property
    def open(self) -> int:
        """Requests without an answer."""
        return len(self.exchanges)

    async def drain(self) -> None:
        """Wait until every open exchange has its answer, at the latest at its deadline. Then wait up to
        ``LATE_REVERSAL_STOP_SECONDS`` for late replies, and as long for late reversals."""
        await self.exchanges.wait_closed()
        pending = self._look_ups | self._open_commands.pending
        if pending:
            _, silent = await asyncio.wait(pending, timeout=LATE_REVERSAL_STOP_SECONDS)
            for reply in silent:
                # The outcome of a submission is then unknown, which starts a late reversal.
                reply.cancel()
            if silent:
                await asyncio.wait(silent)
                await asyncio.sleep(0)
        await self.late_reversals.stop()

    def _look_up(self, exchange: Exchange, digest: bytes) -> None:
        self._looked_up[digest] = [exchange]
        task = asyncio.create_task(self._find_card(digest))
        self._look_ups.add(task)
        task.add_done_callback(self._look_ups.discard)

    async def _find_card(self, digest: bytes) -> None:
        waiting = self._looked_up[digest]
        try:
            card = await self._cards.find(digest)
        except Exception as failure:  # noqa: BLE001 - the network must get an answer after any failure
            for exchange in waiting:
                self.exchanges.fail(exchange, failure)
            return
        finally:
            # Also after a cancellation: no later message may wait for this look-up.
            del self._looked_up[digest]
        for exchange in waiting:
            if card is None:
                self._refuse_unknown_card(exchange)
            elif exchange in self.exchanges:
                self._ask_owner(exchange, card)

    def _refuse_unknown_card(self, exchange: Exchange) -> None:
        self.exchanges.refuse(exchange, self._probe_delays.unknown_card(exchange))

    def _ask_owner(self, exchange: Exchange, card: IssuedCard) -> None:
        if card.live != self._live:
            # A card of the other mode does not exist on this link.
            self._refuse_unknown_card(exchange)
            return
        exchange.requester.card_recognized()
        messages, mti = exchange.requester.profile.messages, exchange.message.mti
        if mti in messages.authorizations and self._should_shed(card.card_id):
            # Before the command is built. A repeat is submitted: its original may have been approved.
            self.counts.shed += 1
            self.exchanges.refuse(exchange, DEADLINE_EXCEEDED)
            return
        try:
            command = self._command(exchange, card)
            if isinstance(command, Authorize) and has_wrong_value(command):
                self._probe_delays.wrong_value(exchange)
            if command.command_key in self.late_reversals:
                # The network got 91 and the approval was reversed, so the stored approval is no longer valid.
                self.exchanges.refuse(exchange, DEADLINE_EXCEEDED)
                return
            open_command = self._open_commands.submit(exchange, command, messages.is_repeat(mti))
        except Exception as failure:  # noqa: BLE001 - the network must get an answer after any failure
            self.exchanges.fail(exchange, failure)
            return
        if _withholds_answer(exchange.content) and not card.live:
            open_command.withheld = True
            due = exchange.arrived + self._withheld_seconds
            exchange.requester = DelayedRequester(exchange.requester, due)

    def _command(self, exchange: Exchange, card: IssuedCard) -> MessageCommand:
        content = exchange.content
        id_ = new_id_beside(card.card_id)
        profile = exchange.requester.profile
        digest = profile.fingerprint(exchange.message, self._card_secrets.fingerprint_key)
        if not isinstance(content, AuthorizationRequest):
            command = to_command(content, Routed(id_, card.card_id, digest), profile.identity)
            return command if self._screen is None else self._screen.restricted(command)
        return to_command(content, self._checks.routed(content, card, id_, digest), profile.identity)


def _withholds_answer(content: Content) -> bool:
    return isinstance(content, AuthorizationRequest) and content.scenario == ANSWER_WITHHELD
