"""Simulations that failed on the wire are decided after all when the journal holds their outcome.

An answer can miss the simulated network: the connection is lost, the process restarts, or the answer comes
after the time in which it is still noted. The owner's decision stands in the journal under the message's
command key, so the row takes it from there, as the answer on the wire would have given it.

An approval counts only while it stands. The network reverses a request without an answer, and an edge
reverses an approval that it could not give in time; a row whose approval was reversed stays ``failed``. While
a leg of the simulation still sends messages, it may reverse an approval, so approvals wait for its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import structlog

from actors.essential import start_essential
from actors.network.cards import CardCredentials, CardsById
from actors.network.database import DatabaseUnavailableError, NetworkDbConnection
from actors.network.exchanges import stands_in
from actors.network.messages import message_of
from actors.network.postgres_simulation_store import opening_of
from actors.network.simulated_network import SimulatedNetwork
from actors.network.simulation_store import Simulation
from engine.iso8583.acquirer_follow_ups import stand_in_advice, timeout_reversal
from engine.iso8583.content import read
from engine.iso8583.elements import ElementError
from engine.iso8583.identity import late_reversal_key
from engine.iso8583.message import Message
from engine.iso8583.respond import NO_ACTION, answered, approves
from engine.iso8583.translate import Routed, to_command
from engine.limits import SETTLE_AFTER_SECONDS, SETTLE_BATCH_MAX, SETTLE_HOURS, SETTLE_POLL_SECONDS
from engine.replies import Reply, WireAnswer

_START: Final = (datetime(1970, 1, 1, tzinfo=UTC), "00000000-0000-0000-0000-000000000000")
_decode_reply = msgspec.json.Decoder(Reply).decode
_log = structlog.get_logger(__name__)


class OutcomeRecoveryCounts(msgspec.Struct):
    """Since the settler started."""

    settled: int = 0
    """Failed simulations that were decided by the journal."""


class FailedSimulation(msgspec.Struct, frozen=True):
    """A failed simulation and the keys of the commands that tell its outcome."""

    simulation: Simulation
    message: Message
    """The last message of the simulation: the one whose answer decides it."""
    key: bytes
    """Command key of ``message``."""
    reversed_by: tuple[bytes, ...]
    """Command keys of the reversals that take its approval back."""


class OutcomeRecovery:
    """``start`` and ``stop`` it once each; a second ``stop`` is harmless."""

    def __init__(
        self,
        network: SimulatedNetwork,
        cards: CardsById,
        db: NetworkDbConnection,
        *,
        after_seconds: float = SETTLE_AFTER_SECONDS,
        batch_max: int = SETTLE_BATCH_MAX,
        poll_seconds: float = SETTLE_POLL_SECONDS,
    ) -> None:
        self.counts = OutcomeRecoveryCounts()
        self._network = network
        self._cards = cards
        self._db = db
        self._after_seconds = after_seconds
        self._batch_max = batch_max
        self._poll_seconds = poll_seconds
        self._position = _START
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Looks outcomes up periodically, in the background."""
        self._loop = self._loop or start_essential(self._run(), "settling")

    async def stop(self) -> None:
        """Stops; the next start begins with the oldest failed simulation."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
            self._loop = None

    async def step(self) -> int:
        """Looks up the next batch of failed simulations and decides those with an outcome; their number.
        After the newest one the next step begins with the oldest again. Raises DatabaseUnavailableError."""
        rows = await self._db.fetch(
            "find_failed", SETTLE_HOURS, self._after_seconds, *self._position, self._batch_max
        )
        settled = await self._settle([opening_of(row) for row in rows]) if rows else 0
        full = len(rows) == self._batch_max
        self._position = (rows[-1]["failed_at"], rows[-1]["id"]) if full else _START
        self.counts.settled += settled
        return settled

    async def _settle(self, simulations: Sequence[Simulation]) -> int:
        cards = await self._cards.find_all([simulation.request.card_id for simulation in simulations])
        found = [
            sought_of(simulation, credentials)
            for simulation, credentials in zip(simulations, cards, strict=True)
            if credentials is not None
        ]
        sought = [each for each in found if each is not None]
        # Before the journal is read: a leg that ends in between may have reversed the approval after that.
        busy = {each.key for each in sought if self._network.under_way(each.simulation)}
        keys = [key for each in sought for key in (each.key, *each.reversed_by)]
        answers = answers_of(await self._db.fetch("find_replies", keys))
        settled = 0
        for each in sought:
            answer = standing_answer(each, answers, open_=each.key in busy)
            if answer is not None:
                self._network.settle(each.simulation, answered(each.message, answer))
                settled += 1
        return settled

    async def _run(self) -> None:
        while True:
            try:
                settled = await self.step()
                if settled:
                    _log.info("simulations_settled", count=settled)
            except DatabaseUnavailableError as failure:
                _log.info("settling_waits", error=type(failure).__name__)
            await asyncio.sleep(self._poll_seconds)


def sought_of(simulation: Simulation, credentials: CardCredentials) -> FailedSimulation | None:
    """What to look for; ``None`` for a message that the edge refuses without asking an owner."""
    try:
        request = message_of(simulation, credentials)
        if simulation.operation in ("reversal", "clearing"):
            return FailedSimulation(simulation, request, _key(request), ())
        if stands_in(simulation):
            advice = stand_in_advice(request, request.fields[11])
            return FailedSimulation(simulation, advice, _key(advice), ())
        key = _key(request)
        return FailedSimulation(
            simulation, request, key, (late_reversal_key(key), _key(timeout_reversal(request)))
        )
    except ElementError:
        return None


def answers_of(rows: Sequence[Mapping[str, Any]]) -> dict[bytes, WireAnswer]:
    """The owners' answers of ``find_replies``, by command key."""
    replies = {row["command_key"]: _decode_reply(row["reply"]) for row in rows}
    return {key: reply for key, reply in replies.items() if isinstance(reply, WireAnswer)}


def standing_answer(
    sought: FailedSimulation, answers: Mapping[bytes, WireAnswer], *, open_: bool
) -> WireAnswer | None:
    """The answer that decides the simulation: a decline, or an approval that was not reversed. ``open_``: a
    leg may still reverse it."""
    answer = answers.get(sought.key)
    if answer is None or not approves(answer.response_code):
        return answer
    if open_:
        return None
    reversals = (answers.get(key) for key in sought.reversed_by)
    if any(reversal is not None and reversal.response_code != NO_ACTION for reversal in reversals):
        return None
    return answer


def _key(message: Message) -> bytes:
    """The command key under which owners execute ``message``."""
    return to_command(read(message), Routed("", "", b"")).command_key
