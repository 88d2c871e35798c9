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
from actors.network.acquirer_session import NotConnectedError, SessionLostError
from actors.network.database import DatabaseUnavailableError
from actors.network.simulation_store import Failure, SaleIncrease, Simulation, SimulationStore, StateChange
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


class MessageTransport(Protocol):
    """The session as this network uses it (``actors.network.acquirer_session.Session``)."""

    async def connected(self, timeout_seconds: float) -> None: ...

    def send(self, message: Message) -> asyncio.Future[Message]: ...

    def forget(self, message: Message) -> None: ...


class Exchanges:
    """Starts legs and records how they end. ``stop`` it once; what is under way then stays as recorded."""

    def __init__(
        self,
        transport: MessageTransport,
        store: SimulationStore,
        clock: Clock,
        timeout_seconds: float,
        late_seconds: float,
    ) -> None:
        self._transport = transport
        self._store = store
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._late_seconds = late_seconds
        self._legs: set[asyncio.Task[None]] = set()
        self._under_way: set[str] = set()

    def under_way(self, simulation_id: str) -> bool:
        """Whether a leg of this simulation still sends messages or waits for answers."""
        return simulation_id in self._under_way

    def start(self, simulation: Simulation, message: Message) -> asyncio.Task[None]:
        """Sends ``message`` of the row ``opening``; the task is done when its leg is over."""
        simulation_id = simulation.request.simulation_id
        if simulation.operation in ("reversal", "clearing"):
            return self._keep(simulation_id, self._forwarded(simulation, message))
        if stands_in(simulation):
            return self._keep(simulation_id, self._stand_in(simulation, message))
        return self._keep(simulation_id, self._requested(simulation, message))

    def settle(self, simulation: Simulation, answer: Message) -> None:
        """Records ``answer`` to the last message of ``opening``, found after its leg has ended."""
        if stands_in(simulation):
            self._approve_itself(simulation, answer)
        else:
            self._decide(simulation, answer)

    async def stop(self) -> None:
        """Stops all legs."""
        for leg in self._legs:
            leg.cancel()
        await asyncio.gather(*self._legs, return_exceptions=True)

    # --- requests

    async def _requested(self, simulation: Simulation, message: Message) -> None:
        answer = await self._ask(simulation, message)
        if isinstance(answer, Message):
            self._decide(simulation, answer)
            return
        self._fail(simulation, answer)
        if answer is not _NOT_CONNECTED:
            await self._take_back(simulation, message)

    async def _ask(self, simulation: Simulation, message: Message) -> Message | Failure:
        """The answer within the network's time, or why there is none."""
        deadline = asyncio.get_running_loop().time() + self._timeout_seconds
        failure = _NOT_CONNECTED
        while True:
            try:
                answer = await self._send(message, deadline)
            except NotConnectedError:
                return failure
            if failure is _NOT_CONNECTED:
                self._sent(simulation)
            try:
                async with asyncio.timeout_at(deadline):
                    return await asyncio.shield(answer)
            except TimeoutError:
                self._await_late(simulation, message, answer)
                return _NO_ANSWER
            except SessionLostError:
                failure = _CONNECTION_LOST
                message = as_repeat(message)

    async def _take_back(self, simulation: Simulation, message: Message) -> None:
        """The merchant was told no; whatever the platform has decided must not stay."""
        if simulation.original is None:
            await self._forward(timeout_reversal(message))
            return
        try:
            remaining_minor = await self._store.open_minor(simulation.original.request.simulation_id)
        except DatabaseUnavailableError:
            # Without the amount nothing can be said; the next message of the sale corrects the hold.
            return
        await self._forward(increment_timeout_reversal(message, remaining_minor))

    def _await_late(self, simulation: Simulation, message: Message, answer: asyncio.Future[Message]) -> None:
        """Notes an answer that comes after all, for a while."""
        answer.add_done_callback(partial(self._late, simulation))
        asyncio.get_running_loop().call_later(self._late_seconds, self._transport.forget, message)

    def _late(self, simulation: Simulation, answer: asyncio.Future[Message]) -> None:
        """It decides the row, and the reversal on its way wins: nothing of it will be presented."""
        if not answer.cancelled() and answer.exception() is None and not stands_in(simulation):
            _log.info("late_answer", simulation_id=simulation.request.simulation_id)
            self._decide(simulation, answer.result(), late=True)

    async def _stand_in(self, simulation: Simulation, message: Message) -> None:
        """The message asks the platform to answer too late. When no usable answer comes in time, the network
        approves by itself and advises that; a decision that comes in time is taken as it is."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_seconds
        answer = await self._ask(simulation, message)
        if answer is _NOT_CONNECTED:
            self._fail(simulation, _NOT_CONNECTED)
            return
        if isinstance(answer, Message) and loop.time() < deadline and not _not_now(answer):
            self._decide(simulation, answer)
            return
        advised = await self._forward(stand_in_advice(message, message.fields[11]))
        if advised is None:
            self._fail(simulation, _NO_ANSWER)
        else:
            self._approve_itself(simulation, advised)

    def _approve_itself(self, simulation: Simulation, advised: Message) -> None:
        """The network has approved in the issuer's stead, and ``advised`` answers its advice."""
        self._store.move(
            StateChange(
                simulation_id=simulation.request.simulation_id,
                state="decided",
                decided_ms=self._clock.now_ms(),
                response_code=APPROVED,
                approval_code=simulation.stan,
                approved_minor=simulation.request.amount_minor,
                authorization_id=quoted_authorization_id(advised),
                increase=_addition(simulation, simulation.request.amount_minor),
            )
        )

    # --- what must arrive

    async def _forwarded(self, simulation: Simulation, message: Message) -> None:
        answer = await self._forward(message, simulation)
        if answer is None:
            self._fail(simulation, _NO_ANSWER)
        else:
            self._decide(simulation, answer)

    async def _forward(self, message: Message, simulation: Simulation | None = None) -> Message | None:
        """The answer to ``message``; none when it is given up."""
        pause_seconds = FORWARD_SECONDS_MIN
        for _ in range(FORWARD_ATTEMPTS):
            deadline = asyncio.get_running_loop().time() + self._timeout_seconds
            try:
                answer = await self._send(message, deadline)
                if simulation is not None:
                    self._sent(simulation)
                    simulation = None
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
        await self._transport.connected(deadline - asyncio.get_running_loop().time())
        return self._transport.send(message)

    def _sent(self, simulation: Simulation) -> None:
        simulation_id = simulation.request.simulation_id
        self._store.move(StateChange(simulation_id=simulation_id, state="sent", sent_ms=self._clock.now_ms()))

    def _decide(self, simulation: Simulation, answer: Message, *, late: bool = False) -> None:
        response_code = answer.fields.get(39, "")
        approved_minor = _approved(simulation, answer) if approves(response_code) else None
        self._store.move(
            StateChange(
                simulation_id=simulation.request.simulation_id,
                state="decided",
                decided_ms=self._clock.now_ms(),
                response_code=response_code,
                approval_code=answer.fields.get(38),
                approved_minor=approved_minor,
                authorization_id=quoted_authorization_id(answer),
                increase=None if late or not approved_minor else _addition(simulation, approved_minor),
            )
        )

    def _fail(self, simulation: Simulation, failure: Failure) -> None:
        self._store.move(
            StateChange(
                simulation_id=simulation.request.simulation_id,
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


def _approved(simulation: Simulation, answer: Message) -> int:
    """What of the row's amount is agreed to. DE4 of a reversal is the amount before it."""
    return simulation.request.amount_minor if simulation.operation == "reversal" else int(answer.fields[4])


def _addition(simulation: Simulation, approved_minor: int) -> SaleIncrease | None:
    """What will have to be presented: a sale, or what an increment has added to one."""
    if simulation.operation in ("reversal", "clearing") or simulation.request.kind == "refund":
        return None
    sale = simulation.original.request if simulation.original else simulation.request
    return SaleIncrease(sale.simulation_id, approved_minor)


def _not_now(answer: Message) -> bool:
    return answer.fields.get(39) in _NOT_NOW


def stands_in(simulation: Simulation) -> bool:
    """Whether the network decides this sale itself when the platform gives no decision in time."""
    return simulation.request.scenario == "force_stip_timeout"
