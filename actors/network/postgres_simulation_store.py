"""The simulation store in the tables ``stan_blocks``, ``simulations`` and ``clearing_schedule``.

New rows are committed before their methods return. State changes are written in the background, in order and
in batches. A batch that fails ``RECORD_ATTEMPTS`` times is given up and counted: its rows keep their state,
and ``accepted`` or ``sent`` then means that the outcome is unknown. The change to ``sent`` shares the
statement of the answer if the answer arrives within ``SENT_SECONDS``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from actors.batcher import Batcher
from actors.network.database import DatabaseUnavailableError, NetworkDbConnection, Run
from actors.network.deadlines import Deadlines
from actors.network.follow_up_sequence import FollowUpSequence
from actors.network.simulation_rows import (
    change_columns,
    insert_columns,
    recorded_of,
    sale_columns,
    simulation_of,
    spend_columns,
    spend_values,
)
from actors.network.simulation_store import (
    PreparedFollowUp,
    RecordedSimulation,
    Simulation,
    StateChange,
    merge_changes,
)
from engine.limits import FORWARD_RESUME_HOURS, SIMULATION_BATCH_MAX, STAN_BLOCK
from engine.simulation import ForcePostRequest, SaleState

RECORD_ATTEMPTS = 20
"""Attempts to write a batch of state changes, up to a second apart."""
SENT_SECONDS = 0.1
"""How long the change to ``sent`` waits for the answer, to share its statement."""
RECORD_PAUSE_SECONDS = 0.01
"""Pause after a batch of state changes, for each change: a batch costs a commit, and no caller waits for it.
So 100 spends in a second share ten commits, and the record of one spend delays the next by 20 ms at most."""
RECORD_PAUSE_SECONDS_MAX = 0.1
"""Longest pause after a batch."""
_PAUSE_SECONDS_MIN = 0.05
_PAUSE_SECONDS_MAX = 1.0


class _PendingFollowUp(msgspec.Struct, eq=False):
    """A follow-up that waits for its transaction; ``recorded`` is the result."""

    follow_up: PreparedFollowUp
    automatic: bool
    recorded: RecordedSimulation | None = None


class _PendingSpend(msgspec.Struct, eq=False):
    """A spend that waits for its transaction; ``card_state`` is the result."""

    simulation: Simulation
    card_state: str | None = None


class PostgresSimulationStore:
    """``inserts`` and ``updates`` are separate connections, so that neither kind of write delays the other.
    A sale is due ``auto_clear_seconds`` after its last increase or partial reversal; 0 turns automatic
    clearing off."""

    def __init__(
        self,
        acquirer_id: str,
        inserts: NetworkDbConnection,
        updates: NetworkDbConnection,
        *,
        auto_clear_seconds: int = 0,
    ) -> None:
        self._acquirer_id = acquirer_id
        self._inserts = inserts
        self._updates = updates
        self._auto_clear_seconds = auto_clear_seconds
        self._new_spends: Batcher[Simulation] = Batcher(self._write_spends, SIMULATION_BATCH_MAX)
        self._new_active_spends: Batcher[_PendingSpend] = Batcher(
            self._write_active_spends, SIMULATION_BATCH_MAX
        )
        self._new_follow_ups: Batcher[_PendingFollowUp] = Batcher(
            self._write_follow_ups, SIMULATION_BATCH_MAX
        )
        self._changes: Batcher[StateChange] = Batcher(
            self._write_changes,
            SIMULATION_BATCH_MAX,
            item_pause_seconds=RECORD_PAUSE_SECONDS,
            pause_seconds_max=RECORD_PAUSE_SECONDS_MAX,
        )
        self._sent: dict[str, StateChange] = {}
        """Changes to ``sent`` that wait for the answer, by simulation id."""
        self._unanswered: Deadlines[str] = Deadlines(SENT_SECONDS, self._record_sent)
        self._block = range(0)
        self._taking = asyncio.Lock()
        self.lost_changes = 0
        """State changes that were given up."""

    async def take_stans(self, count: int) -> list[int]:
        async with self._taking:
            taken = list(self._block[:count])
            self._block = self._block[count:]
            missing = count - len(taken)
            if missing:
                size = max(STAN_BLOCK, missing)
                first = (await self._inserts.fetch("take_stans", self._acquirer_id, size))[0]["first"]
                taken += range(first, first + missing)
                self._block = range(first + missing, first + size)
            return taken

    async def insert(self, simulations: Sequence[Simulation]) -> None:
        await asyncio.shield(self._new_spends.add(simulations))

    async def insert_active(self, simulations: Sequence[Simulation]) -> Mapping[str, str]:
        pending = [_PendingSpend(simulation) for simulation in simulations]
        await self._new_active_spends.add(pending)
        return {
            each.simulation.request.simulation_id: each.card_state
            for each in pending
            if each.card_state is not None
        }

    async def insert_follow_ups(
        self, follow_ups: Sequence[PreparedFollowUp], *, automatic: bool = False
    ) -> list[RecordedSimulation]:
        pending = [_PendingFollowUp(follow_up, automatic) for follow_up in follow_ups]
        await asyncio.shield(self._new_follow_ups.add(pending))
        return [each.recorded for each in pending if each.recorded is not None]

    async def open_minor(self, simulation_id: str) -> int:
        rows = await self._updates.fetch("find_open_amount", simulation_id)
        return rows[0]["open_minor"] if rows else 0

    async def unanswered(self) -> list[Simulation]:
        rows = await self._inserts.fetch("find_unanswered", FORWARD_RESUME_HOURS)
        return [simulation_of(row) for row in rows]

    def record(self, change: StateChange) -> None:
        simulation_id = change.simulation_id
        if change.state == "sent":
            self._sent[simulation_id] = change
            self._unanswered.add(simulation_id)
            return
        sent = self._sent.pop(simulation_id) if self._unanswered.done(simulation_id) is not None else None
        self._changes.add((change,) if sent is None else (sent, change))

    async def drain(self) -> None:
        self._unanswered.stop()
        for simulation_id in list(self._sent):
            self._record_sent(simulation_id)
        await self._changes.drain()

    def _record_sent(self, simulation_id: str) -> None:
        self._changes.add((self._sent.pop(simulation_id),))

    async def _write_spends(self, simulations: list[Simulation]) -> None:
        await self._inserts.fetch("insert_simulations", *insert_columns(simulations))

    async def _write_active_spends(self, pending: list[_PendingSpend]) -> None:
        if len(pending) == 1:
            rows = await self._inserts.fetch("insert_active_spend", *spend_values(pending[0].simulation))
        else:
            columns = spend_columns([each.simulation for each in pending])
            rows = await self._inserts.fetch("insert_active_spends", *columns)
        states = {row["id"]: row["state"] for row in rows}
        for each in pending:
            each.card_state = states.get(each.simulation.request.simulation_id)

    async def _write_follow_ups(self, pending: list[_PendingFollowUp]) -> None:
        follow_ups = [each.follow_up for each in pending]

        async def work(run: Run) -> None:
            sequence = FollowUpSequence(await _find(run, follow_ups), await _lock(run, follow_ups))
            for each in pending:
                recorded = sequence.apply(each.follow_up)
                each.recorded = None if each.automatic and recorded.simulation.failure else recorded
            new = [each.recorded.simulation for each in pending if each.recorded and each.recorded.is_new]
            if new:
                await run("insert_simulations", *insert_columns(new))
            if sequence.applied:
                await run("update_sales", *sale_columns(sequence.applied), self._auto_clear_seconds)

        await self._inserts.transact("insert_follow_ups", work)

    async def _write_changes(self, changes: list[StateChange]) -> None:
        newest = list(merge_changes(changes))
        pause_seconds = _PAUSE_SECONDS_MIN
        for _ in range(RECORD_ATTEMPTS):
            try:
                await self._update(newest)
            except DatabaseUnavailableError:
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, _PAUSE_SECONDS_MAX)
            else:
                return
        self.lost_changes += len(newest)

    async def _update(self, changes: list[StateChange]) -> None:
        columns = change_columns(changes)
        await self._updates.fetch("record_simulations", *columns, self._auto_clear_seconds)


async def _find(run: Run, follow_ups: Sequence[PreparedFollowUp]) -> dict[str, Simulation]:
    """The stored rows that have the ids of ``follow_ups``."""
    rows = await run("find_simulations", [follow_up.request.simulation_id for follow_up in follow_ups])
    return {row["id"]: recorded_of(row) for row in rows}


async def _lock(run: Run, follow_ups: Sequence[PreparedFollowUp]) -> dict[str, SaleState]:
    """The states of the sales of ``follow_ups``, locked until the transaction ends."""
    requests = [follow_up.request for follow_up in follow_ups]
    sales = {
        request.original.request.simulation_id
        for request in requests
        if not isinstance(request, ForcePostRequest)
    }
    if not sales:
        return {}
    rows = await run("lock_sales", sorted(sales))
    return {row["simulation_id"]: SaleState(row["open_minor"], row["presentments"]) for row in rows}
