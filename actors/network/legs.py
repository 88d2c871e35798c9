"""Wire legs of the simulated network: what becomes of a message between its row and its answer.

Networks treat their messages in two ways. A *request* (authorization, increment) has a deadline: a lost
connection is repeated until then, afterwards the network reverses what it cannot know, and an answer that
still comes is noted. What *must arrive* (reversal, advice, presentment) is stored and forwarded: repeated,
with growing pauses, until it is answered by anything but "not now".
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, Protocol

import structlog

from actors.clock import Clock
from actors.network.database import DatabaseUnavailableError
from actors.network.session import NotConnectedError, SessionLostError
from actors.network.simulations import Addition, Book, Failure, Move, Opening
from engine.decline import APPROVED
from engine.iso8583.acquirer import quoted_authorization_id
from engine.iso8583.acquirer_follow_ups import increment_timeout_reversal, stand_in_advice, timeout_reversal
from engine.iso8583.message import Message, as_repeat
from engine.iso8583.respond import DEADLINE_EXCEEDED, SYSTEM_ERROR, approves
from engine.limits import FORWARD_ATTEMPTS, FORWARD_SECONDS_MAX, FORWARD_SECONDS_MIN

_NOT_NOW: Final = frozenset({DEADLINE_EXCEEDED, SYSTEM_ERROR})

_NOT_CONNECTED = Failure("post_build", "not_connected", "The network had no connection to the platform.")
_CONNECTION_LOST = Failure("post_build", "connection_lost", "The connection ended before the answer came.")
_NO_ANSWER = Failure("post_build", "no_answer", "No answer came within the network's time.")

_log = structlog.get_logger(__name__)


class Wire(Protocol):
    """The session as this network uses it (``actors.network.session.Session``)."""

    async def connected(self, timeout_seconds: float) -> None: ...

    def send(self, message: Message) -> asyncio.Future[Message]: ...

    def forget(self, message: Message) -> None: ...


class Legs:
    """Starts legs and records how they end. ``stop`` it once; what is under way then stays as recorded."""

    def __init__(
        self, wire: Wire, book: Book, clock: Clock, timeout_seconds: float, late_seconds: float
    ) -> None:
        self._wire = wire
        self._book = book
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._late_seconds = late_seconds
        self._legs: set[asyncio.Task[None]] = set()
        self._under_way: set[str] = set()

    def under_way(self, simulation_id: str) -> bool:
        """Whether a leg of this simulation still sends messages or waits for answers."""
        return simulation_id in self._under_way

    def start(self, opening: Opening, message: Message) -> asyncio.Task[None]:
        """Sends ``message`` of the row ``opening``; the task is done when its leg is over."""
        simulation_id = opening.request.simulation_id
        if opening.operation in ("reversal", "clearing"):
            return self._keep(simulation_id, self._forwarded(opening, message))
        if stands_in(opening):
            return self._keep(simulation_id, self._stand_in(opening, message))
        return self._keep(simulation_id, self._requested(opening, message))

    def settle(self, opening: Opening, answer: Message) -> None:
        """Records ``answer`` to the last message of ``opening``, found after its leg has ended."""
        if stands_in(opening):
            self._approve_itself(opening, answer)
        else:
            self._decide(opening, answer)

    async def stop(self) -> None:
        """Stops all legs."""
        for leg in self._legs:
            leg.cancel()
        await asyncio.gather(*self._legs, return_exceptions=True)

    # --- requests

    async def _requested(self, opening: Opening, message: Message) -> None:
        answer = await self._ask(opening, message)
        if isinstance(answer, Message):
            self._decide(opening, answer)
            return
        self._fail(opening, answer)
        if answer is not _NOT_CONNECTED:
            await self._take_back(opening, message)

    async def _ask(self, opening: Opening, message: Message) -> Message | Failure:
        """The answer within the network's time, or why there is none."""
        deadline = asyncio.get_running_loop().time() + self._timeout_seconds
        failure = _NOT_CONNECTED
        while True:
            try:
                answer = await self._send(message, deadline)
            except NotConnectedError:
                return failure
            if failure is _NOT_CONNECTED:
                self._sent(opening)
            try:
                async with asyncio.timeout_at(deadline):
                    return await asyncio.shield(answer)
            except TimeoutError:
                self._await_late(opening, message, answer)
                return _NO_ANSWER
            except SessionLostError:
                failure = _CONNECTION_LOST
                message = as_repeat(message)

    async def _take_back(self, opening: Opening, message: Message) -> None:
        """The merchant was told no; whatever the platform has decided must not stay."""
        if opening.original is None:
            await self._forward(timeout_reversal(message))
            return
        try:
            remaining_minor = await self._book.open_minor(opening.original.request.simulation_id)
        except DatabaseUnavailableError:
            # Without the amount nothing can be said; the next message of the sale corrects the hold.
            return
        await self._forward(increment_timeout_reversal(message, remaining_minor))

    def _await_late(self, opening: Opening, message: Message, answer: asyncio.Future[Message]) -> None:
        """Notes an answer that comes after all, for a while."""
        answer.add_done_callback(partial(self._late, opening))
        asyncio.get_running_loop().call_later(self._late_seconds, self._wire.forget, message)

    def _late(self, opening: Opening, answer: asyncio.Future[Message]) -> None:
        """It decides the row, and the reversal on its way wins: nothing of it will be presented."""
        if not answer.cancelled() and answer.exception() is None and not stands_in(opening):
            _log.info("late_answer", simulation_id=opening.request.simulation_id)
            self._decide(opening, answer.result(), late=True)

    async def _stand_in(self, opening: Opening, message: Message) -> None:
        """The message asks the platform to answer too late. When no usable answer comes in time, the network
        approves by itself and advises that; a decision that comes in time is taken as it is."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_seconds
        answer = await self._ask(opening, message)
        if answer is _NOT_CONNECTED:
            self._fail(opening, _NOT_CONNECTED)
            return
        if isinstance(answer, Message) and loop.time() < deadline and not _not_now(answer):
            self._decide(opening, answer)
            return
        advised = await self._forward(stand_in_advice(message, message.fields[11]))
        if advised is None:
            self._fail(opening, _NO_ANSWER)
        else:
            self._approve_itself(opening, advised)

    def _approve_itself(self, opening: Opening, advised: Message) -> None:
        """The network has approved in the issuer's stead, and ``advised`` answers its advice."""
        self._book.move(
            Move(
                simulation_id=opening.request.simulation_id,
                state="decided",
                decided_ms=self._clock.now_ms(),
                response_code=APPROVED,
                approval_code=opening.stan,
                approved_minor=opening.request.amount_minor,
                authorization_id=quoted_authorization_id(advised),
                addition=_addition(opening, opening.request.amount_minor),
            )
        )

    # --- what must arrive

    async def _forwarded(self, opening: Opening, message: Message) -> None:
        answer = await self._forward(message, opening)
        if answer is None:
            self._fail(opening, _NO_ANSWER)
        else:
            self._decide(opening, answer)

    async def _forward(self, message: Message, opening: Opening | None = None) -> Message | None:
        """The answer to ``message``; none when it is given up."""
        pause_seconds = FORWARD_SECONDS_MIN
        for _ in range(FORWARD_ATTEMPTS):
            deadline = asyncio.get_running_loop().time() + self._timeout_seconds
            try:
                answer = await self._send(message, deadline)
                if opening is not None:
                    self._sent(opening)
                    opening = None
                async with asyncio.timeout_at(deadline):
                    said = await asyncio.shield(answer)
                if not _not_now(said):
                    return said
                message = as_repeat(message)
            except NotConnectedError:
                pass  # it has not been said, so the next attempt is no repeat
            except (TimeoutError, SessionLostError):
                message = as_repeat(message)
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, FORWARD_SECONDS_MAX)
        _log.warning("message_given_up", mti=message.mti)
        return None

    # --- both

    async def _send(self, message: Message, deadline: float) -> asyncio.Future[Message]:
        await self._wire.connected(deadline - asyncio.get_running_loop().time())
        return self._wire.send(message)

    def _sent(self, opening: Opening) -> None:
        simulation_id = opening.request.simulation_id
        self._book.move(Move(simulation_id=simulation_id, state="sent", sent_ms=self._clock.now_ms()))

    def _decide(self, opening: Opening, answer: Message, *, late: bool = False) -> None:
        response_code = answer.fields.get(39, "")
        approved_minor = _approved(opening, answer) if approves(response_code) else None
        self._book.move(
            Move(
                simulation_id=opening.request.simulation_id,
                state="decided",
                decided_ms=self._clock.now_ms(),
                response_code=response_code,
                approval_code=answer.fields.get(38),
                approved_minor=approved_minor,
                authorization_id=quoted_authorization_id(answer),
                addition=None if late or not approved_minor else _addition(opening, approved_minor),
            )
        )

    def _fail(self, opening: Opening, failure: Failure) -> None:
        self._book.move(
            Move(
                simulation_id=opening.request.simulation_id,
                state="failed",
                failed_ms=self._clock.now_ms(),
                failure=failure,
            )
        )

    def _keep(self, simulation_id: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Holds a reference until the leg is done: the event loop itself keeps none."""
        leg = asyncio.create_task(work)
        self._legs.add(leg)
        self._under_way.add(simulation_id)
        leg.add_done_callback(partial(self._ended, simulation_id))
        return leg

    def _ended(self, simulation_id: str, leg: asyncio.Task[None]) -> None:
        self._legs.discard(leg)
        self._under_way.discard(simulation_id)


def _approved(opening: Opening, answer: Message) -> int:
    """What of the row's amount is agreed to. DE4 of a reversal is the amount before it."""
    return opening.request.amount_minor if opening.operation == "reversal" else int(answer.fields[4])


def _addition(opening: Opening, approved_minor: int) -> Addition | None:
    """What will have to be presented: a sale, or what an increment has added to one."""
    if opening.operation in ("reversal", "clearing") or opening.request.kind == "refund":
        return None
    sale = opening.original.request if opening.original else opening.request
    return Addition(sale.simulation_id, approved_minor)


def _not_now(answer: Message) -> bool:
    return answer.fields.get(39) in _NOT_NOW


def stands_in(opening: Opening) -> bool:
    """Whether the network decides this sale itself when the platform gives no decision in time."""
    return opening.request.scenario == "force_stip_timeout"
