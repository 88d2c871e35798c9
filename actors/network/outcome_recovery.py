"""Decides simulations that failed on the wire from the outcome in the journal.

An answer can fail to reach the simulated network: the connection breaks, the process restarts, or the answer
arrives after the time in which late answers are recorded. The journal holds the owner's decision under the
message's command key, so this module records the same outcome that the answer would have given.

A reversed approval does not count: its row stays ``failed``. The network reverses a request without an
answer, and the edge reverses an approval that it could not return in time. The flow of a simulation may still
send a reversal, so an approval is recorded only after the flow has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import structlog

from actors.network.cards import CardCredentials, CardsById
from actors.network.database import DatabaseUnavailableError, NetworkDbConnection
from actors.network.message_flows import stands_in
from actors.network.messages import message_of
from actors.network.simulated_network import SimulatedNetwork
from actors.network.simulation_rows import simulation_of
from actors.network.simulation_store import Simulation
from actors.periodic import PeriodicTask
from engine.iso8583.acquirer_follow_ups import stand_in_advice, timeout_reversal
from engine.iso8583.content_reader import read
from engine.iso8583.elements import ElementError
from engine.iso8583.identity import late_reversal_key
from engine.iso8583.message import Message
from engine.iso8583.respond import NO_ACTION, answered, approves
from engine.iso8583.translate import Routed, to_command
from engine.limits import (
    OUTCOME_RECOVERY_AFTER_SECONDS,
    OUTCOME_RECOVERY_BATCH_MAX,
    OUTCOME_RECOVERY_HOURS,
    OUTCOME_RECOVERY_POLL_SECONDS,
)
from engine.replies import Reply, WireAnswer

_START: Final = (datetime(1970, 1, 1, tzinfo=UTC), "00000000-0000-0000-0000-000000000000")
_decode_reply = msgspec.json.Decoder(Reply).decode
_log = structlog.get_logger(__name__)


class OutcomeRecoveryCounts(msgspec.Struct):
    """Totals since the start."""

    recovered: int = 0
    """Failed simulations that were decided from the journal."""


class FailedSimulation(msgspec.Struct, frozen=True):
    """A failed simulation and the keys of the commands that determine its outcome."""

    simulation: Simulation
    message: Message
    """The last message of the simulation; its answer is the outcome."""
    key: bytes
    """Command key of ``message``."""
    reversed_by: tuple[bytes, ...]
    """Command keys of the reversals that may have reversed the approval."""


class OutcomeRecovery:
    """Looks up failed simulations in batches, periodically. ``start`` and ``stop`` are safe to call twice."""

    def __init__(
        self,
        network: SimulatedNetwork,
        cards: CardsById,
        db: NetworkDbConnection,
        *,
        after_seconds: float = OUTCOME_RECOVERY_AFTER_SECONDS,
        batch_max: int = OUTCOME_RECOVERY_BATCH_MAX,
        poll_seconds: float = OUTCOME_RECOVERY_POLL_SECONDS,
    ) -> None:
        self.counts = OutcomeRecoveryCounts()
        self._network = network
        self._cards = cards
        self._db = db
        self._after_seconds = after_seconds
        self._batch_max = batch_max
        self._position = _START
        self._task = PeriodicTask(
            "outcome-recovery", self._run_step, poll_seconds, tolerated=(DatabaseUnavailableError,)
        )

    def start(self) -> None:
        """Look outcomes up periodically, in the background."""
        self._task.start()

    async def stop(self) -> None:
        """Stop. The next start begins with the oldest failed simulation."""
        await self._task.stop()

    async def step(self) -> int:
        """Look up the next batch of failed simulations and decide those that have an outcome. Returns their
        number. After the newest simulation, the next step starts again with the oldest. Raises
        ``DatabaseUnavailableError``."""
        rows = await self._db.fetch(
            "find_failed", OUTCOME_RECOVERY_HOURS, self._after_seconds, *self._position, self._batch_max
        )
        recovered = await self._recover([simulation_of(row) for row in rows]) if rows else 0
        full = len(rows) == self._batch_max
        self._position = (rows[-1]["failed_at"], rows[-1]["id"]) if full else _START
        self.counts.recovered += recovered
        return recovered

    async def _recover(self, simulations: Sequence[Simulation]) -> int:
        cards = await self._cards.find_all([simulation.request.card_id for simulation in simulations])
        failed = [
            each
            for simulation, credentials in zip(simulations, cards, strict=True)
            if credentials is not None and (each := failed_simulation(simulation, credentials)) is not None
        ]
        # Checked before the journal is read: a flow that ends in between may just have sent a reversal.
        active = {each.key for each in failed if self._network.is_active(each.simulation)}
        keys = [key for each in failed for key in (each.key, *each.reversed_by)]
        answers = answers_of(await self._db.fetch("find_replies", keys))
        recovered = 0
        for each in failed:
            answer = standing_answer(each, answers, flow_active=each.key in active)
            if answer is not None:
                self._network.record_outcome(each.simulation, answered(each.message, answer))
                recovered += 1
        return recovered

    async def _run_step(self) -> None:
        recovered = await self.step()
        if recovered:
            _log.info("outcomes_recovered", count=recovered)


def failed_simulation(simulation: Simulation, credentials: CardCredentials) -> FailedSimulation | None:
    """The command keys to look up; ``None`` for a message that the edge refuses before it reaches an
    owner."""
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
    """The owners' answers in rows of ``find_replies``, by command key."""
    replies = {row["command_key"]: _decode_reply(row["reply"]) for row in rows}
    return {key: reply for key, reply in replies.items() if isinstance(reply, WireAnswer)}


def standing_answer(
    failed: FailedSimulation, answers: Mapping[bytes, WireAnswer], *, flow_active: bool
) -> WireAnswer | None:
    """The answer that decides the simulation: a decline, or an approval that was not reversed.
    ``flow_active``: the flow may still send a reversal, so an approval does not decide yet."""
    answer = answers.get(failed.key)
    if answer is None or not approves(answer.response_code):
        return answer
    if flow_active:
        return None
    reversals = (answers.get(key) for key in failed.reversed_by)
    if any(reversal is not None and reversal.response_code != NO_ACTION for reversal in reversals):
        return None
    return answer


def _key(message: Message) -> bytes:
    """The command key under which owners execute ``message``."""
    return to_command(read(message), Routed("", "", b"")).command_key
