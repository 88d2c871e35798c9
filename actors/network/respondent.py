"""Financial requests at the edge: from a message to its answer, whatever its class.

Each gets one deadline. Until then the owner's answer goes out; at the deadline the network is told 91, and
an authorization that is approved afterwards, or may have been, is undone, because nobody will hear of it.
A card that nobody has issued is 14 in every class: there is no book in which an advice or a reversal of it
could be noted, and a network that stores and forwards stops at any answer.
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
from actors.network.card_secrets import CardSecrets
from actors.network.cards import CardsByDigest, IssuedCard
from actors.network.database import DatabaseUnavailableError
from actors.network.deadlines import Deadlines
from actors.network.late_reversals import LateReversals
from actors.network.probe_limiter import ProbeLimiter
from actors.network.requester import DelayedRequester, Requester
from engine.commands import Advise, Authorize, Command, Present, Reverse, WireIdentity
from engine.iso8583.card_data import DEFAULT_VERIFICATION, Verification, check_expiry
from engine.iso8583.content import AuthorizationRequest, Content, ReversalNotice, read
from engine.iso8583.elements import ANSWER_WITHHELD, ElementError
from engine.iso8583.identity import fingerprint
from engine.iso8583.message import Message, is_repeat
from engine.iso8583.respond import (
    CARD_NOT_FOUND,
    DEADLINE_EXCEEDED,
    INVALID_MESSAGE,
    SUSPECTED_FRAUD,
    SYSTEM_ERROR,
    approves,
    refusal,
    replied,
)
from engine.iso8583.translate import Routed, to_command
from engine.limits import (
    AUTHORIZATION_DEADLINE_MS,
    PROBE_DELAY_SECONDS,
    PROBES_DELAYED_MAX,
    UNDO_STOP_SECONDS,
    WITHHELD_ANSWER_MS,
)
from engine.pan import luhn_valid
from engine.replies import NotExecuted, Reply, WireAnswer
from engine.threeds import judge


class Submit(Protocol):
    """The way to the owners."""

    def __call__(self, command: Command, *, repeat: bool = False) -> Awaitable[Reply]:
        """``repeat``: the network has sent this message before."""


FromWire = Authorize | Advise | Present | Reverse

_log = structlog.get_logger(__name__)
_AUTHORIZATION = "0100"


class RespondentCounts(msgspec.Struct):
    """What has become of requests since the edge started."""

    answered: int = 0
    invalid: int = 0
    """Decodable, but a field was missing or malformed (30)."""
    shed: int = 0
    """Authorizations refused because their owner was too far behind (91)."""
    expired: int = 0
    """Answered with 91 at the deadline."""
    failed: int = 0
    """The way to the owner raised an error (91 or 96)."""
    late_approvals: int = 0
    unknown_outcomes: int = 0
    """Authorizations that were answered with 91 although they may have been approved."""


class _Exchange(msgspec.Struct, eq=False):
    """One request on its way to its answer. Compared by identity: equal messages are different exchanges.
    ``asker`` may be replaced by a ``Deferred`` one."""

    requester: Requester
    message: Message
    content: Content
    arrived: float
    """In the loop's time."""


class _Question(msgspec.Struct):
    """One command, however many exchanges ask for its answer at the moment: to its owner they are one."""

    command: FromWire
    waiting: int = 0
    withheld: bool = False
    """Whether the network gets the answer too late on purpose, and will advise what it decided itself."""
    told: bool = False
    """Whether an exchange has given the owner's answer to the network in time."""
    unknown: bool = False
    approved_late_minor: int | None = None


class Respondent:
    """Finds the card, checks what only the edge may see, asks the owner and answers in time."""

    def __init__(
        self,
        submit: Submit,
        cards: CardsByDigest,
        card_secrets: CardSecrets,
        *,
        sheds: Callable[[str], bool] = lambda _card_id: False,
        verification: Verification = DEFAULT_VERIFICATION,
        deadline_ms: int = AUTHORIZATION_DEADLINE_MS,
        withheld_ms: int = WITHHELD_ANSWER_MS,
        probes: ProbeLimiter | None = None,
        probe_delay_seconds: float = PROBE_DELAY_SECONDS,
    ) -> None:
        """``sheds``: whether the owner of a card is so far behind that a new authorization is refused.
        ``verification``: the treatment of PIN blocks and MACs, for which this edge has no keys."""
        self.counts = RespondentCounts()
        self.undoing = LateReversals(submit)
        self.probes = probes or ProbeLimiter(time.monotonic)
        self._probe_delay_seconds = probe_delay_seconds
        self._delayed = 0
        """Answers that wait because they are beyond the limit of ``probes``."""
        self._submit = submit
        self._cards = cards
        self._card_secrets = card_secrets
        self._sheds = sheds
        self._verification = verification
        self.seconds = Histogram()
        """From arrival to answer."""
        self._deadline_seconds = deadline_ms / 1000
        self._withheld_seconds = withheld_ms / 1000
        self._open: Deadlines[_Exchange] = Deadlines(self._deadline_seconds, self._expire)
        self._questions: dict[bytes, _Question] = {}
        self._to_come: set[asyncio.Future[Any]] = set()
        """Look-ups and replies: the event loop itself keeps no reference to them."""
        self._idle = asyncio.Event()
        self._idle.set()

    def respond(self, requester: Requester, message: Message, since: float | None = None) -> None:
        """Answers ``message``, of one of ``content.FUNCTIONS``, now or later, exactly once. ``since``: when
        it came in, in the loop's time, if not now; never earlier than one before it."""
        try:
            content = read(message, self._verification)
        except ElementError:
            self.counts.invalid += 1
            requester.answer(refusal(message, INVALID_MESSAGE))
            return
        arrived = asyncio.get_running_loop().time() if since is None else since
        exchange = _Exchange(requester, message, content, arrived)
        digest = self._card_secrets.digest(content.pan)
        self._open.add(exchange, since)
        self._idle.clear()
        requester.took_up()
        card = self._cards.known(digest)
        if card is not None:
            self._ask_owner(exchange, card)
        elif not luhn_valid(content.pan[:]):
            self._refuse_unknown(exchange)  # no such number is ever issued
        else:
            task = asyncio.create_task(self._find_card(exchange, digest))
            self._to_come.add(task)
            task.add_done_callback(self._to_come.discard)

    @property
    def open(self) -> int:
        """Requests that have no answer yet."""
        return len(self._open)

    async def drain(self) -> None:
        """Waits until every open exchange has its answer, at the latest at its deadline, and a little for
        late replies and for what is still to be undone."""
        await self._idle.wait()
        if self._to_come:
            _, silent = await asyncio.wait(self._to_come, timeout=UNDO_STOP_SECONDS)
            for reply in silent:
                # Its outcome is then not known, and it is undone.
                reply.cancel()
            if silent:
                await asyncio.wait(silent)
                await asyncio.sleep(0)
        await self.undoing.stop()

    async def _find_card(self, exchange: _Exchange, digest: bytes) -> None:
        try:
            card = await self._cards.find(digest)
        except Exception as failure:  # noqa: BLE001 - whatever it is, the network must get its answer
            self._fail(exchange, failure)
            return
        if card is None:
            self._refuse_unknown(exchange)
        elif exchange in self._open:
            self._ask_owner(exchange, card)

    def _refuse_unknown(self, exchange: _Exchange) -> None:
        within = self.probes.unknown_card(exchange.requester.source, _wire(exchange.content).acquirer_id)
        if not within:
            self._delay(exchange)
        self._refuse(exchange, CARD_NOT_FOUND if within else SUSPECTED_FRAUD)

    def _delay(self, exchange: _Exchange) -> None:
        """Has the answer leave later, unless too many wait already."""
        if self._delayed >= PROBES_DELAYED_MAX:
            return
        self._delayed += 1
        due = asyncio.get_running_loop().time() + self._probe_delay_seconds
        last = exchange.arrived + self._deadline_seconds
        exchange.requester = DelayedRequester(exchange.requester, min(due, last), self._undelayed)

    def _undelayed(self) -> None:
        self._delayed -= 1

    def _ask_owner(self, exchange: _Exchange, card: IssuedCard) -> None:
        exchange.requester.recognized()
        if exchange.message.mti == _AUTHORIZATION and self._sheds(card.card_id):
            # Before a command is made of it. A repeat goes on: its original may have been approved.
            self.counts.shed += 1
            self._refuse(exchange, DEADLINE_EXCEEDED)
            return
        try:
            command = self._command(exchange, card)
            if isinstance(command, Authorize) and _wrong(command):
                self._wrong_value(exchange)
            if command.command_key in self.undoing:
                # It was answered with 91 and undone since; the stored approval is no longer true.
                self._refuse(exchange, DEADLINE_EXCEEDED)
                return
            question = self._questions.get(command.command_key)
            if question is not None and question.command.fingerprint == command.fingerprint:
                command = question.command
            reply = asyncio.ensure_future(self._submit(command, repeat=is_repeat(exchange.message.mti)))
        except Exception as failure:  # noqa: BLE001 - whatever it is, the network must get its answer
            self._fail(exchange, failure)
            return
        if question is None:
            question = self._questions[command.command_key] = _Question(command)
        question.waiting += 1
        if _withholds(exchange.content) and not card.live:
            question.withheld = True
            exchange.requester = DelayedRequester(
                exchange.requester, exchange.arrived + self._withheld_seconds
            )
        self._to_come.add(reply)
        reply.add_done_callback(partial(self._reply, exchange, command))

    def _command(self, exchange: _Exchange, card: IssuedCard) -> FromWire:
        content = exchange.content
        id_ = new_id_beside(card.card_id)
        digest = fingerprint(exchange.message, self._card_secrets.fingerprint_key)
        if not isinstance(content, AuthorizationRequest):
            return to_command(content, Routed(id_, card.card_id, digest))
        cvv2 = self._card_secrets.check_cvv2(
            content.cvv2, content.pan, card.exp_year, card.exp_month, card.cvk_generation
        )
        expiry = check_expiry(content.expiries, card.exp_year, card.exp_month)
        authentication = judge(content.auth_value, content.threeds_ref)
        return to_command(content, Routed(id_, card.card_id, digest, expiry, cvv2, authentication))

    def _wrong_value(self, exchange: _Exchange) -> None:
        """The owner decides and counts in any case; beyond the limit its answer, a decline, leaves later."""
        if not self.probes.wrong_value(exchange.requester.source, _wire(exchange.content).acquirer_id):
            self._delay(exchange)

    def _reply(self, exchange: _Exchange, command: FromWire, future: asyncio.Future[Reply]) -> None:
        """Called with the owner's reply, in time or late."""
        question = self._questions[command.command_key]
        question.waiting -= 1
        self._to_come.discard(future)
        failure = asyncio.CancelledError() if future.cancelled() else future.exception()
        if failure is not None:
            question.unknown = True
            self._fail(exchange, failure)
        else:
            self._answer(exchange, question, future.result())
        if not question.waiting:
            del self._questions[command.command_key]
            self._conclude(question.command, question)

    def _answer(self, exchange: _Exchange, question: _Question, reply: Reply) -> None:
        question.unknown |= reply == _UNAVAILABLE
        if self._settle(exchange):
            question.told |= isinstance(reply, WireAnswer)
            self.counts.answered += 1
            exchange.requester.answer(replied(exchange.message, reply))
        elif isinstance(reply, WireAnswer) and approves(reply.response_code):
            # Also a stored approval: this very command may have been executed by an owner that is gone. Where
            # another exchange got the approval, its owner changes nothing.
            question.approved_late_minor = reply.approved_minor

    def _conclude(self, command: FromWire, question: _Question) -> None:
        """The network was told 91: an approval that it has not heard of, and perhaps nobody ever will, must
        not stay.

        Undoing what never happened is harmless: its reversal waits for it. Advices, presentments and
        reversals are never undone, networks send them again.
        """
        if question.told or question.withheld or not isinstance(command, Authorize):
            return
        if question.approved_late_minor is not None:
            self.counts.late_approvals += 1
            _log.warning("late_approval", authorization_id=command.id, trace=command.wire.rrn)
            self.undoing.undo(command, question.approved_late_minor)
        elif question.unknown:
            self.counts.unknown_outcomes += 1
            self.undoing.undo(command, command.amount_minor)

    def _fail(self, exchange: _Exchange, failure: BaseException) -> None:
        """Out of reach, or of memory, is 91: asking again may help. Anything else is a fault of ours, 96."""
        self.counts.failed += 1
        unreachable = isinstance(failure, _UNREACHABLE)
        if not unreachable:
            # The type alone: a driver's text may hold row values.
            _log.error("request_fault", error=type(failure).__name__)
        self._refuse(exchange, DEADLINE_EXCEEDED if unreachable else SYSTEM_ERROR)

    def _refuse(self, exchange: _Exchange, response_code: str) -> None:
        if self._settle(exchange):
            exchange.requester.answer(refusal(exchange.message, response_code))

    def _expire(self, exchange: _Exchange) -> None:
        self.counts.expired += 1
        self.seconds.observe(self._deadline_seconds)
        self._settled(exchange)
        exchange.requester.answer(refusal(exchange.message, DEADLINE_EXCEEDED))

    def _settle(self, exchange: _Exchange) -> bool:
        """Whether this exchange is still open; it no longer is."""
        seconds = self._open.done(exchange)
        if seconds is None:
            return False
        self.seconds.observe(seconds)
        self._settled(exchange)
        return True

    def _settled(self, exchange: _Exchange) -> None:
        exchange.requester.settled()
        if not len(self._open):
            self._idle.set()


def _wire(content: Content) -> WireIdentity:
    return content.wire if isinstance(content, ReversalNotice) else content.purchase.wire


def _wrong(command: Authorize) -> bool:
    return command.cvv2 == "mismatch" or command.expiry == "mismatch"


def _withholds(content: Content) -> bool:
    return isinstance(content, AuthorizationRequest) and content.scenario == ANSWER_WITHHELD


_UNAVAILABLE = NotExecuted("unavailable")
_UNREACHABLE = (OSError, TimeoutError, MemoryError, DatabaseUnavailableError, asyncio.CancelledError)
