"""Financial requests at the edge: read the message, find the card, ask its owner, answer within the deadline.

Every class of message takes this path, and every request has one deadline. If the owner's answer arrives in
time, the network gets it. At the deadline the network gets 91. An authorization that is approved after that,
or whose outcome stays unknown, is reversed (``late_reversals``).

A message for a card that was never issued gets 14 in every class. There is no card on which an advice or a
reversal could be recorded, and a network that stores and forwards stops at any answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

import msgspec
import structlog

from actors.ids import new_id_beside
from actors.metrics import Histogram
from actors.network.card_checks import CardChecks, KeysOf, no_keys
from actors.network.card_secrets import CardSecrets
from actors.network.cards import CardsByDigest, IssuedCard
from actors.network.database import DatabaseUnavailableError
from actors.network.deadlines import Deadlines
from actors.network.exchange import Exchange, MessageCommand, OpenCommand
from actors.network.late_reversals import LateReversals
from actors.network.probe_limiter import ProbeLimiter
from actors.network.requester import DelayedRequester, Requester
from actors.tracing import Tracer
from engine.commands import Authorize, Command, WireIdentity
from engine.iso8583.card_data import DEFAULT_VERIFICATION, Verification
from engine.iso8583.content import AuthorizationRequest, Content, ReversalNotice, read
from engine.iso8583.cryptography import Cryptography
from engine.iso8583.elements import ANSWER_WITHHELD, ElementError
from engine.iso8583.message import Message
from engine.iso8583.respond import (
    CARD_NOT_FOUND,
    DEADLINE_EXCEEDED,
    INVALID_MESSAGE,
    NOT_PERMITTED,
    SUSPECTED_FRAUD,
    SYSTEM_ERROR,
    approves,
    refusal,
    replied,
)
from engine.iso8583.translate import Routed, to_command
from engine.limits import (
    AUTHORIZATION_DEADLINE_MS,
    LATE_REVERSAL_STOP_SECONDS,
    PROBE_DELAY_SECONDS,
    PROBES_DELAYED_MAX,
    WITHHELD_ANSWER_MS,
)
from engine.pan import luhn_valid
from engine.replies import NotExecuted, Reply, WireAnswer


class Submit(Protocol):
    """Submits a command to the card's owner (``actors.router``)."""

    def __call__(self, command: Command, *, repeat: bool = False) -> Awaitable[Reply]:
        """``repeat``: the network marked the message as a repeat."""


class Screen(Protocol):
    """The permissions of a link (``links.screening``)."""

    def refuse(self, message: Message, content: Content) -> str | None:
        """DE39 for a message that the link may not send, else ``None``."""

    def restricted(self, command: MessageCommand) -> MessageCommand:
        """``command`` as the link may send it."""

    def count_owner_refusal(self, message: Message) -> None:
        """Count a message that its owner refused, because the link may not send it."""


_log = structlog.get_logger(__name__)


class RespondentCounts(msgspec.Struct):
    """Outcomes of requests since the edge started."""

    answered: int = 0
    invalid: int = 0
    """Decodable messages with a missing or malformed field (30)."""
    shed: int = 0
    """Authorizations refused because their owner's queue was too long (91)."""
    expired: int = 0
    """Answered with 91 at the deadline."""
    failed: int = 0
    """The submission to the owner raised an exception (91 or 96)."""
    late_approvals: int = 0
    unknown_outcomes: int = 0
    """Authorizations answered with 91 that may have been approved."""


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
        self.late_reversals = LateReversals(submit)
        self.probes = probes or ProbeLimiter(time.monotonic)
        self._link = link
        self._probe_delay_seconds = probe_delay_seconds
        self._delayed = 0
        """Answers that are delayed because their sender exceeded the limit of ``probes``."""
        self._submit = submit
        self._tracer = tracer
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
        self.seconds = seconds or Histogram()
        """From arrival to answer."""
        self._deadline_seconds = deadline_ms / 1000
        self._withheld_seconds = withheld_ms / 1000
        self._open: Deadlines[Exchange] = Deadlines(self._deadline_seconds, self._expire)
        self._open_commands: dict[bytes, OpenCommand] = {}
        self._looked_up: dict[bytes, list[Exchange]] = {}
        """Exchanges that wait for the look-up of their card, by digest, in the order of their arrival."""
        self._pending: set[asyncio.Future[Any]] = set()
        """Look-ups and submissions; the event loop itself holds only weak references to them."""
        self._idle = asyncio.Event()
        self._idle.set()

    def respond(self, requester: Requester, message: Message, since: float | None = None) -> None:
        """Answer ``message``, whose function in the requester's profile is one of ``content.FUNCTIONS``, now
        or later, exactly once. ``since``: its arrival in the loop's time, never earlier than that of the
        message before; now if ``None``."""
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
            attributes = {"iso8583.mti": message.mti, "stanchion.trace": _wire(content).rrn}
            exchange.span = self._tracer.start("edge", kind="server", attributes=attributes)
        digest = self._card_secrets.digest(content.pan)
        self._open.add(exchange, since)
        self._idle.clear()
        requester.request_started()
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
        return len(self._open)

    async def drain(self) -> None:
        """Wait until every open exchange has its answer, at the latest at its deadline. Then wait up to
        ``LATE_REVERSAL_STOP_SECONDS`` for late replies, and as long for late reversals."""
        await self._idle.wait()
        if self._pending:
            _, silent = await asyncio.wait(self._pending, timeout=LATE_REVERSAL_STOP_SECONDS)
            for reply in silent:
                # The outcome is then unknown, which starts a late reversal.
                reply.cancel()
            if silent:
                await asyncio.wait(silent)
                await asyncio.sleep(0)
        await self.late_reversals.stop()

    def _look_up(self, exchange: Exchange, digest: bytes) -> None:
        self._looked_up[digest] = [exchange]
        task = asyncio.create_task(self._find_card(digest))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _find_card(self, digest: bytes) -> None:
        waiting = self._looked_up[digest]
        try:
            card = await self._cards.find(digest)
        except Exception as failure:  # noqa: BLE001 - the network must get an answer after any failure
            for exchange in waiting:
                self._fail(exchange, failure)
            return
        finally:
            # Also after a cancellation: no later message may wait for this look-up.
            del self._looked_up[digest]
        for exchange in waiting:
            if card is None:
                self._refuse_unknown_card(exchange)
            elif exchange in self._open:
                self._ask_owner(exchange, card)

    def _refuse_unknown_card(self, exchange: Exchange) -> None:
        acquirer_id = _wire(exchange.content).acquirer_id
        within = self.probes.unknown_card(self._source_of(exchange), acquirer_id)
        if not within:
            self._delay(exchange)
        self._refuse(exchange, CARD_NOT_FOUND if within else SUSPECTED_FRAUD)

    def _source_of(self, exchange: Exchange) -> str:
        """The sender, as ``probes`` tells senders apart."""
        return exchange.requester.source if self._link is None else f"link {self._link}"

    def _delay(self, exchange: Exchange) -> None:
        """Delay the answer, unless ``PROBES_DELAYED_MAX`` answers are delayed already."""
        if self._delayed >= PROBES_DELAYED_MAX:
            return
        self._delayed += 1
        due = asyncio.get_running_loop().time() + self._probe_delay_seconds
        last = exchange.arrived + self._deadline_seconds
        exchange.requester = DelayedRequester(exchange.requester, min(due, last), self._delay_over)

    def _delay_over(self) -> None:
        self._delayed -= 1

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
            self._refuse(exchange, DEADLINE_EXCEEDED)
            return
        try:
            command = self._command(exchange, card)
            if isinstance(command, Authorize) and _has_wrong_value(command):
                self._count_wrong_value(exchange)
            if command.command_key in self.late_reversals:
                # The network got 91 and the approval was reversed, so the stored approval is no longer valid.
                self._refuse(exchange, DEADLINE_EXCEEDED)
                return
            open_command = self._open_commands.get(command.command_key)
            if open_command is not None and open_command.command.fingerprint == command.fingerprint:
                command = open_command.command
            reply = asyncio.ensure_future(self._submitted(exchange, command, messages.is_repeat(mti)))
        except Exception as failure:  # noqa: BLE001 - the network must get an answer after any failure
            self._fail(exchange, failure)
            return
        if open_command is None:
            open_command = self._open_commands[command.command_key] = OpenCommand(command)
        open_command.waiting += 1
        if _withholds_answer(exchange.content) and not card.live:
            open_command.withheld = True
            due = exchange.arrived + self._withheld_seconds
            exchange.requester = DelayedRequester(exchange.requester, due)
        self._pending.add(reply)
        reply.add_done_callback(partial(self._reply, exchange, command))

    def _submitted(self, exchange: Exchange, command: MessageCommand, repeat: bool) -> Awaitable[Reply]:
        if exchange.span is None:
            return self._submit(command, repeat=repeat)
        with exchange.span.current():
            return self._submit(command, repeat=repeat)

    def _command(self, exchange: Exchange, card: IssuedCard) -> MessageCommand:
        content = exchange.content
        id_ = new_id_beside(card.card_id)
        profile = exchange.requester.profile
        digest = profile.fingerprint(exchange.message, self._card_secrets.fingerprint_key)
        if not isinstance(content, AuthorizationRequest):
            command = to_command(content, Routed(id_, card.card_id, digest), profile.identity)
            return command if self._screen is None else self._screen.restricted(command)
        return to_command(content, self._checks.routed(content, card, id_, digest), profile.identity)

    def _count_wrong_value(self, exchange: Exchange) -> None:
        """Beyond the limit the owner still decides, and its decline leaves later."""
        acquirer_id = _wire(exchange.content).acquirer_id
        if not self.probes.wrong_value(self._source_of(exchange), acquirer_id):
            self._delay(exchange)

    def _reply(self, exchange: Exchange, command: MessageCommand, future: asyncio.Future[Reply]) -> None:
        """The owner has replied, before or after the deadline."""
        open_command = self._open_commands[command.command_key]
        open_command.waiting -= 1
        self._pending.discard(future)
        failure = asyncio.CancelledError() if future.cancelled() else future.exception()
        if failure is not None:
            open_command.outcome_unknown = True
            self._fail(exchange, failure)
        else:
            self._answer(exchange, open_command, future.result())
        if not open_command.waiting:
            del self._open_commands[command.command_key]
            self._reverse_if_late(open_command.command, open_command)

    def _answer(self, exchange: Exchange, open_command: OpenCommand, reply: Reply) -> None:
        open_command.outcome_unknown |= reply == _UNAVAILABLE
        if self._close(exchange):
            open_command.answered |= isinstance(reply, WireAnswer)
            self.counts.answered += 1
            if self._screen is not None and _is_not_permitted(reply):
                self._screen.count_owner_refusal(exchange.message)
            _send(exchange, replied(exchange.message, reply, exchange.requester.profile))
        elif isinstance(reply, WireAnswer) and approves(reply.response_code):
            # A stored approval counts as well: a former owner may have executed this command. If another
            # exchange got the approval, the owner does not execute the late reversal.
            open_command.approved_late_minor = reply.approved_minor

    def _reverse_if_late(self, command: MessageCommand, open_command: OpenCommand) -> None:
        """Reverse an authorization that the network believes to have failed.

        Reversing an authorization that was never executed is harmless: the reversal is kept until the
        authorization arrives. Advices, presentments and reversals are not reversed; networks repeat them.
        """
        if open_command.answered or open_command.withheld or not isinstance(command, Authorize):
            return
        if open_command.approved_late_minor is not None:
            self.counts.late_approvals += 1
            _log.warning("late_approval", authorization_id=command.id, trace=command.wire.rrn)
            self.late_reversals.reverse(command, open_command.approved_late_minor)
        elif open_command.outcome_unknown:
            self.counts.unknown_outcomes += 1
            self.late_reversals.reverse(command, command.amount_minor)

    def _fail(self, exchange: Exchange, failure: BaseException) -> None:
        """Answer 91 if the owner or memory is unavailable, since a repeat may succeed, and 96 after a bug."""
        self.counts.failed += 1
        unreachable = isinstance(failure, _UNREACHABLE)
        if not unreachable:
            # The type only: the text of a driver's exception may hold values of rows.
            _log.error("request_fault", error=type(failure).__name__)
        self._refuse(exchange, DEADLINE_EXCEEDED if unreachable else SYSTEM_ERROR)

    def _refuse(self, exchange: Exchange, response_code: str) -> None:
        if self._close(exchange):
            _send(exchange, refusal(exchange.message, response_code, exchange.requester.profile))

    def _expire(self, exchange: Exchange) -> None:
        self.counts.expired += 1
        self.seconds.observe(self._deadline_seconds)
        self._closed(exchange)
        _send(exchange, refusal(exchange.message, DEADLINE_EXCEEDED, exchange.requester.profile))

    def _close(self, exchange: Exchange) -> bool:
        """Close ``exchange``. Returns whether it was open."""
        seconds = self._open.done(exchange)
        if seconds is None:
            return False
        self.seconds.observe(seconds)
        self._closed(exchange)
        return True

    def _closed(self, exchange: Exchange) -> None:
        exchange.requester.request_finished()
        if not len(self._open):
            self._idle.set()


def _send(exchange: Exchange, response: Message) -> None:
    if exchange.span is not None:
        exchange.span.end({"iso8583.response_code": response.fields.get(39)})
    exchange.requester.answer(response)


def _wire(content: Content) -> WireIdentity:
    return content.wire if isinstance(content, ReversalNotice) else content.purchase.wire


def _has_wrong_value(command: Authorize) -> bool:
    return "mismatch" in (command.cvv2, command.cvv1, command.expiry)


def _is_not_permitted(reply: Reply) -> bool:
    return isinstance(reply, WireAnswer) and reply.response_code == NOT_PERMITTED


def _withholds_answer(content: Content) -> bool:
    return isinstance(content, AuthorizationRequest) and content.scenario == ANSWER_WITHHELD


_UNAVAILABLE = NotExecuted("unavailable")
_UNREACHABLE = (OSError, TimeoutError, MemoryError, DatabaseUnavailableError, asyncio.CancelledError)
