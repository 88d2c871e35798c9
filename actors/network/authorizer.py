"""Authorizations at the edge: from an 0100 to its 0110.

Each gets one deadline. Until then the owner's answer goes out; at the deadline the network is told 91, and
an approval that comes later has to be undone, because nobody will hear of it. Whoever asks again finds the
stored answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

import msgspec
import structlog

from actors.ids import new_id_beside
from actors.network.cards import CardOnFile, CardsByDigest
from actors.network.custody import CardCustody
from actors.network.database import DatabaseUnavailableError
from actors.network.deadlines import Deadlines
from engine.commands import Authorize, Command
from engine.iso8583.elements import ElementError
from engine.iso8583.message import Message
from engine.iso8583.respond import (
    CARD_NOT_FOUND,
    DEADLINE_EXCEEDED,
    INVALID_MESSAGE,
    SYSTEM_ERROR,
    approves,
    refusal,
    replied,
)
from engine.iso8583.translate import AuthorizationRequest, fingerprint, read_authorization, to_command
from engine.limits import AUTHORIZATION_DEADLINE_MS
from engine.replies import Answer, Reply
from engine.threeds import judge

Submit = Callable[[Command], Awaitable[Reply]]
"""The way to the owners."""

_log = structlog.get_logger(__name__)


class AuthorizationCounts(msgspec.Struct):
    """What has become of authorizations since the edge started."""

    answered: int = 0
    invalid: int = 0
    """Decodable, but a field was missing or malformed (30)."""
    unknown_cards: int = 0
    expired: int = 0
    """Answered with 91 at the deadline."""
    failed: int = 0
    """The way to the owner raised an error (91 or 96)."""
    late_approvals: int = 0


class Asker(Protocol):
    """Where an answer goes."""

    def answer(self, response: Message) -> None:
        """Sends ``response``."""

    def took_up(self) -> None:
        """One more request is being worked on."""

    def settled(self) -> None:
        """... and one less."""


class _Exchange:
    """One request on its way to its answer. Compared by identity: equal messages are different exchanges."""

    __slots__ = ("asker", "content", "message")

    def __init__(self, asker: Asker, message: Message, content: AuthorizationRequest) -> None:
        self.asker = asker
        self.message = message
        self.content = content


class Authorizer:
    """Finds the card, checks what only the edge may see, asks the owner and answers in time."""

    def __init__(
        self,
        submit: Submit,
        cards: CardsByDigest,
        custody: CardCustody,
        *,
        deadline_ms: int = AUTHORIZATION_DEADLINE_MS,
    ) -> None:
        self.counts = AuthorizationCounts()
        self._submit = submit
        self._cards = cards
        self._custody = custody
        self._open: Deadlines[_Exchange] = Deadlines(deadline_ms / 1000, self._expire)
        self._tasks: set[asyncio.Future[Reply] | asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def authorize(self, asker: Asker, message: Message) -> None:
        """Answers ``message`` (0100 or 0101) now or later, exactly once."""
        try:
            content = read_authorization(message)
        except ElementError:
            self.counts.invalid += 1
            asker.answer(refusal(message, INVALID_MESSAGE))
            return
        exchange = _Exchange(asker, message, content)
        digest = self._custody.digest(content.pan)
        self._open.add(exchange)
        self._idle.clear()
        asker.took_up()
        card = self._cards.known(digest)
        if card is not None:
            self._ask_owner(exchange, card)
        else:
            self._keep(asyncio.create_task(self._find_card(exchange, digest)))

    async def drain(self) -> None:
        """Waits until every open exchange has its answer, at the latest at its deadline."""
        await self._idle.wait()

    async def _find_card(self, exchange: _Exchange, digest: bytes) -> None:
        try:
            card = await self._cards.find(digest)
        except Exception as failure:  # noqa: BLE001 - whatever it is, the network must get its answer
            self._fail(exchange, failure)
            return
        if card is None:
            self.counts.unknown_cards += 1
            self._refuse(exchange, CARD_NOT_FOUND)
        elif exchange in self._open:
            self._ask_owner(exchange, card)

    def _ask_owner(self, exchange: _Exchange, card: CardOnFile) -> None:
        try:
            command = self._command(exchange, card)
            reply = asyncio.ensure_future(self._submit(command))
        except Exception as failure:  # noqa: BLE001 - whatever it is, the network must get its answer
            self._fail(exchange, failure)
            return
        self._keep(reply)
        reply.add_done_callback(partial(self._reply, exchange, command))

    def _command(self, exchange: _Exchange, card: CardOnFile) -> Authorize:
        content = exchange.content
        return to_command(
            content,
            authorization_id=new_id_beside(card.card_id),
            card_id=card.card_id,
            fingerprint=fingerprint(exchange.message, self._custody.fingerprint_key),
            cvv2=self._custody.check_cvv2(
                content.cvv2, content.pan, card.exp_year, card.exp_month, card.cvk_generation
            ),
            authentication=judge(content.auth_value, content.threeds_ref),
        )

    def _reply(self, exchange: _Exchange, command: Authorize, future: asyncio.Future[Reply]) -> None:
        """Called with the owner's reply, in time or late."""
        if future.cancelled():
            self._refuse(exchange, DEADLINE_EXCEEDED)
            return
        failure = future.exception()
        if failure is not None:
            self._fail(exchange, failure)
            return
        reply = future.result()
        if self._settle(exchange):
            self.counts.answered += 1
            exchange.asker.answer(replied(exchange.message, reply))
        elif isinstance(reply, Answer) and approves(reply.response_code) and not reply.replayed:
            self._undo_late_approval(command, reply)

    def _fail(self, exchange: _Exchange, failure: BaseException) -> None:
        """Out of reach is 91: asking again may help. Anything else is a fault of ours, 96."""
        self.counts.failed += 1
        unreachable = isinstance(failure, OSError | TimeoutError | DatabaseUnavailableError)
        if not unreachable:
            # The type alone: a driver's text may hold row values.
            _log.error("authorization_fault", error=type(failure).__name__)
        self._refuse(exchange, DEADLINE_EXCEEDED if unreachable else SYSTEM_ERROR)

    def _refuse(self, exchange: _Exchange, response_code: str) -> None:
        if self._settle(exchange):
            exchange.asker.answer(refusal(exchange.message, response_code))

    def _expire(self, exchange: _Exchange) -> None:
        self.counts.expired += 1
        self._settled(exchange)
        exchange.asker.answer(refusal(exchange.message, DEADLINE_EXCEEDED))

    def _settle(self, exchange: _Exchange) -> bool:
        """Whether this exchange is still open; it no longer is."""
        if not self._open.done(exchange):
            return False
        self._settled(exchange)
        return True

    def _settled(self, exchange: _Exchange) -> None:
        exchange.asker.settled()
        if not len(self._open):
            self._idle.set()

    def _undo_late_approval(self, command: Authorize, answer: Answer) -> None:
        """The network was told 91 and this approval came afterwards: its hold must not stay.

        This is the one place from which a reversal has to be issued, under a command key of its own. Until
        owners know reversals, the network's own reversal or the hold's expiry frees the money, and what is
        counted here is owed.
        """
        self.counts.late_approvals += 1
        _log.warning("late_approval", authorization_id=answer.authorization_id, card_id=command.card_id)

    def _keep(self, task: asyncio.Future[Reply] | asyncio.Task[None]) -> None:
        """Holds a reference until ``task`` is done: the event loop itself keeps none."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
