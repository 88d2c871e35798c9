"""Message flows of the simulated network: from the stored simulation to its recorded outcome.

Networks treat messages in two ways. A *request* (authorization, increment) has a deadline. If the connection
is lost before it, the network sends a repeat. At the deadline it reverses the request, because the outcome is
unknown; a decline that still arrives is recorded. Other messages (reversal, advice, presentment) are *stored
and forwarded*: the network repeats them, with growing pauses, until the answer is neither 91 nor 96.
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

_RETRYABLE: Final = frozenset({DEADLINE_EXCEEDED, SYSTEM_ERROR})

_NOT_CONNECTED = Failure("post_build", "not_connected", "The network had no connection to the platform.")
_CONNECTION_LOST = Failure("post_build", "connection_lost", "The connection ended before the answer came.")
_NO_ANSWER = Failure("post_build", "no_answer", "No answer came within the network's time.")

_log = structlog.get_logger(__name__)


class MessageTransport(Protocol):
    """The part of ``AcquirerSession`` that message flows use."""

    async def connected(self, timeout_seconds: float) -> None: ...

    def send(self, message: Message) -> asyncio.Future[Message]: ...

    def forget(self, message: Message) -> None: ...


class MessageFlows:
    """Runs one flow for each simulation and records the outcomes. ``stop`` cancels the flows; their rows then
    keep the state that was recorded last."""

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
        self._flows: set[asyncio.Task[None]] = set()
        self._active: set[str] = set()

    def is_active(self, simulation_id: str) -> bool:
        """Whether the flow of this simulation still sends messages or waits for answers."""
        return simulation_id in self._active

    def start(self, simulation: Simulation, message: Message) -> asyncio.Task[None]:
        """Send the message of ``simulation``. The task ends with the flow."""
        simulation_id = simulation.request.simulation_id
        if simulation.operation in ("reversal", "clearing"):
            return self._spawn(simulation_id, self._run_forwarded(simulation, message))
        if stands_in(simulation):
            return self._spawn(simulation_id, self._run_stand_in(simulation, message))
        return self._spawn(simulation_id, self._run_request(simulation, message))

    def record_outcome(self, simulation: Simulation, answer: Message) -> None:
        """Record ``answer`` to the last message of ``simulation``, whose flow has ended without it."""
        if stands_in(simulation):
            self._record_own_approval(simulation, answer)
        else:
            self._decide(simulation, answer)

    async def stop(self) -> None:
        """Cancel all flows."""
        for flow in self._flows:
            flow.cancel()
        await asyncio.gather(*self._flows, return_exceptions=True)

    # --- requests

    async def _run_request(self, simulation: Simulation, message: Message) -> None:
        answer = await self._request(simulation, message)
        if isinstance(answer, Message):
            self._decide(simulation, answer)
            return
        self._fail(simulation, answer)
        if answer is not _NOT_CONNECTED:
            await self._reverse(simulation, message)

    async def _request(self, simulation: Simulation, message: Message) -> Message | Failure:
        """The answer, if it arrives before the network's deadline; otherwise the failure."""
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
                self._watch_late(simulation, message, answer)
                return _NO_ANSWER
            except SessionLostError:
                failure = _CONNECTION_LOST
                message = as_repeat(message)

    async def _reverse(self, simulation: Simulation, message: Message) -> None:
        """Reverse a request without an answer: the merchant got a decline, so an approval must not remain."""
        if simulation.original is None:
            await self._forward(timeout_reversal(message))
            return
        try:
            remaining_minor = await self._store.open_minor(simulation.original.request.simulation_id)
        except DatabaseUnavailableError:
            # The reversal needs the amount. The next message of the sale corrects the hold.
            return
        await self._forward(increment_timeout_reversal(message, remaining_minor))

    def _watch_late(self, simulation: Simulation, message: Message, answer: asyncio.Future[Message]) -> None:
        """Look at an answer that arrives within ``late_seconds`` after the deadline."""
        answer.add_done_callback(partial(self._record_late, simulation))
        asyncio.get_running_loop().call_later(self._late_seconds, self._transport.forget, message)

    def _record_late(self, simulation: Simulation, answer: asyncio.Future[Message]) -> None:
        """A late decline decides the row. After a late approval it stays failed: the flow reverses the
        approval."""
        if answer.cancelled() or answer.exception() is not None or stands_in(simulation):
            return
        _log.info("late_answer", simulation_id=simulation.request.simulation_id)
        if not approves(answer.result().fields.get(39, "")):
            self._decide(simulation, answer.result())

    async def _run_stand_in(self, simulation: Simulation, message: Message) -> None:
        """The message asks the platform to withhold its answer. Without a usable answer in time, the network
        approves in the issuer's stead and sends an advice. A decision that arrives in time is recorded."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_seconds
        answer = await self._request(simulation, message)
        if answer is _NOT_CONNECTED:
            self._fail(simulation, _NOT_CONNECTED)
            return
        if isinstance(answer, Message) and loop.time() < deadline and not _is_retryable(answer):
            self._decide(simulation, answer)
            return
        advised = await self._forward(stand_in_advice(message, message.fields[11]))
        if advised is None:
            self._fail(simulation, _NO_ANSWER)
        else:
            self._record_own_approval(simulation, advised)

    def _record_own_approval(self, simulation: Simulation, advised: Message) -> None:
        """Record the network's own approval; ``advised`` is the answer to its advice."""
        self._store.record(
            StateChange(
                simulation_id=simulation.request.simulation_id,
                state="decided",
                decided_ms=self._clock.now_ms(),
                response_code=APPROVED,
                approval_code=simulation.stan,
                approved_minor=simulation.request.amount_minor,
                authorization_id=quoted_authorization_id(advised),
                increase=_increase(simulation, simulation.request.amount_minor),
            )
        )

    # --- stored and forwarded messages

    async def _run_forwarded(self, simulation: Simulation, message: Message) -> None:
        answer = await self._forward(message, simulation)
        if answer is None:
            self._fail(simulation, _NO_ANSWER)
        else:
            self._decide(simulation, answer)

    async def _forward(self, message: Message, simulation: Simulation | None = None) -> Message | None:
        """The answer to ``message``; ``None`` after ``FORWARD_ATTEMPTS`` attempts without a final one."""
        pause_seconds = FORWARD_SECONDS_MIN
        for _ in range(FORWARD_ATTEMPTS):
            deadline = asyncio.get_running_loop().time() + self._timeout_seconds
            try:
                answer = await self._send(message, deadline)
                if simulation is not None:
                    self._sent(simulation)
                    simulation = None
                async with asyncio.timeout_at(deadline):
                    response = await asyncio.shield(answer)
                if not _is_retryable(response):
                    return response
                message = as_repeat(message)
            except NotConnectedError:
                pass  # never sent, so the next attempt is not a repeat
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
        self._store.record(
            StateChange(simulation_id=simulation_id, state="sent", sent_ms=self._clock.now_ms())
        )

    def _decide(self, simulation: Simulation, answer: Message) -> None:
        response_code = answer.fields.get(39, "")
        approved_minor = _approved(simulation, answer) if approves(response_code) else None
        self._store.record(
            StateChange(
                simulation_id=simulation.request.simulation_id,
                state="decided",
                decided_ms=self._clock.now_ms(),
                response_code=response_code,
                approval_code=answer.fields.get(38),
                approved_minor=approved_minor,
                authorization_id=quoted_authorization_id(answer),
                increase=_increase(simulation, approved_minor) if approved_minor else None,
            )
        )

    def _fail(self, simulation: Simulation, failure: Failure) -> None:
        self._store.record(
            StateChange(
                simulation_id=simulation.request.simulation_id,
                state="failed",
                failed_ms=self._clock.now_ms(),
                failure=failure,
            )
        )

    def _spawn(self, simulation_id: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a flow and hold a reference to its task; the event loop holds only a weak one."""
        flow = asyncio.create_task(work)
        self._flows.add(flow)
        self._active.add(simulation_id)
        flow.add_done_callback(partial(self._flow_ended, simulation_id))
        return flow

    def _flow_ended(self, simulation_id: str, flow: asyncio.Task[None]) -> None:
        self._flows.discard(flow)
        self._active.discard(simulation_id)


def _approved(simulation: Simulation, answer: Message) -> int:
    """The approved amount. DE4 of a reversal is the amount before the reversal."""
    if simulation.operation == "reversal":
        return simulation.request.amount_minor
    # In the answer to a converted purchase, DE6 is in the currency of the simulation.
    return int(answer.fields[6 if 51 in answer.fields else 4])


def _increase(simulation: Simulation, approved_minor: int) -> SaleIncrease | None:
    """The amount that an approved sale or increment adds to what the network has to present."""
    if simulation.operation in ("reversal", "clearing") or simulation.request.kind == "refund":
        return None
    sale = simulation.original.request if simulation.original else simulation.request
    return SaleIncrease(sale.simulation_id, approved_minor)


def _is_retryable(answer: Message) -> bool:
    return answer.fields.get(39) in _RETRYABLE


def stands_in(simulation: Simulation) -> bool:
    """Whether the network approves this sale in the issuer's stead if no decision arrives in time."""
    return simulation.request.scenario == "force_stip_timeout"
