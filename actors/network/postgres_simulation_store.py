"""The book in tables ``stan_blocks``, ``simulations`` and ``clearing_schedule``.

New rows are durable when their caller goes on. Moves are recorded behind the wire's back, in order and in
batches; one that cannot be written for too long is given up and counted, which the specification allows
for: a row that stays ``accepted`` means that the outcome is unknown. That a message was sent is recorded
together with its answer where that comes at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from actors.batcher import Batcher
from actors.network.database import DatabaseUnavailableError, NetworkDbConnection, Run
from actors.network.deadlines import Deadlines
from actors.network.follow_up_sequence import FollowUpSequence
from actors.network.simulation_store import (
    Failure,
    PreparedFollowUp,
    RecordedSimulation,
    Simulation,
    StateChange,
    merge_changes,
)
from engine.instant import to_datetime
from engine.limits import RESUME_HOURS, SIMULATION_BATCH_MAX, STAN_BLOCK
from engine.simulation import (
    AppliedFollowUp,
    FollowUpRecord,
    ForcePostRequest,
    Original,
    SaleState,
    SpendRequest,
)

RECORD_ATTEMPTS = 20
"""Tries to write a batch of moves, up to a second apart."""
SENT_SECONDS = 0.02
"""How long a row may still be ``accepted`` after its message has left."""
RECORD_REST_SECONDS = 0.02
"""Between batches of moves while they keep coming: nobody waits for them, and each costs a commit."""
_PAUSE_SECONDS_MIN = 0.05
_PAUSE_SECONDS_MAX = 1.0

_decode_spend = msgspec.json.Decoder(SpendRequest).decode
_decode_record = msgspec.json.Decoder(FollowUpRecord).decode
_decode_failure = msgspec.json.Decoder(Failure).decode


class _Asked(msgspec.Struct, eq=False):
    """A draft on its way into the book, and what has come of it."""

    follow_up: PreparedFollowUp
    automatic: bool
    opened: RecordedSimulation | None = None


class PostgresSimulationStore:
    """``opening`` and ``moving`` are connections of their own, so that neither kind of write waits for the
    other. A sale is due ``auto_clear_seconds`` after it was last added to; 0 is never."""

    def __init__(
        self,
        acquirer_id: str,
        simulation: NetworkDbConnection,
        moving: NetworkDbConnection,
        *,
        auto_clear_seconds: int = 0,
    ) -> None:
        self._acquirer_id = acquirer_id
        self._opening = simulation
        self._moving = moving
        self._auto_clear_seconds = auto_clear_seconds
        self._opens: Batcher[Simulation] = Batcher(self._write_openings, SIMULATION_BATCH_MAX)
        self._follows: Batcher[_Asked] = Batcher(self._write_follow_ups, SIMULATION_BATCH_MAX)
        self._moves: Batcher[StateChange] = Batcher(
            self._write_moves, SIMULATION_BATCH_MAX, RECORD_REST_SECONDS
        )
        self._sent: dict[str, StateChange] = {}
        self._unanswered: Deadlines[str] = Deadlines(SENT_SECONDS, self._record_sent)
        self._block = range(0)
        self._taking = asyncio.Lock()
        self.lost_changes = 0
        """Moves that were given up."""

    async def take_stans(self, count: int) -> list[int]:
        async with self._taking:
            taken = list(self._block[:count])
            self._block = self._block[count:]
            missing = count - len(taken)
            if missing:
                size = max(STAN_BLOCK, missing)
                first = (await self._opening.fetch("take_stans", self._acquirer_id, size))[0]["first"]
                taken += range(first, first + missing)
                self._block = range(first + missing, first + size)
            return taken

    async def open(self, simulations: Sequence[Simulation]) -> None:
        await asyncio.shield(self._opens.add(simulations))

    async def follow(
        self, follow_ups: Sequence[PreparedFollowUp], *, automatic: bool = False
    ) -> list[RecordedSimulation]:
        asked = [_Asked(follow_up, automatic) for follow_up in follow_ups]
        await asyncio.shield(self._follows.add(asked))
        return [each.opened for each in asked if each.opened is not None]

    async def open_minor(self, simulation_id: str) -> int:
        rows = await self._moving.fetch("find_open_amount", simulation_id)
        return rows[0]["open_minor"] if rows else 0

    async def unanswered(self) -> list[Simulation]:
        rows = await self._opening.fetch("find_unanswered", RESUME_HOURS)
        return [opening_of(row) for row in rows]

    def move(self, move: StateChange) -> None:
        simulation_id = move.simulation_id
        if move.state == "sent":
            self._sent[simulation_id] = move
            self._unanswered.add(simulation_id)
            return
        sent = self._sent.pop(simulation_id) if self._unanswered.done(simulation_id) is not None else None
        self._moves.add((move,) if sent is None else (sent, move))

    async def drain(self) -> None:
        self._unanswered.stop()
        for simulation_id in list(self._sent):
            self._record_sent(simulation_id)
        await self._moves.drain()

    def _record_sent(self, simulation_id: str) -> None:
        self._moves.add((self._sent.pop(simulation_id),))

    async def _write_openings(self, simulations: list[Simulation]) -> None:
        await self._opening.fetch("insert_simulations", *_rows(simulations))

    async def _write_follow_ups(self, asked: list[_Asked]) -> None:
        follow_ups = [each.follow_up for each in asked]

        async def work(run: Run) -> None:
            sequence = FollowUpSequence(await _find(run, follow_ups), await _lock(run, follow_ups))
            for each in asked:
                opened = sequence.open(each.follow_up)
                each.opened = None if each.automatic and opened.simulation.failure else opened
            fresh = [each.opened.simulation for each in asked if each.opened and each.opened.fresh]
            if fresh:
                await run("insert_simulations", *_rows(fresh))
            if sequence.followed:
                await run("enter_sales", *_entries(sequence.followed), self._auto_clear_seconds)

        await self._opening.transact("follow", work)

    async def _write_moves(self, changes: list[StateChange]) -> None:
        newest = list(merge_changes(changes))
        pause_seconds = _PAUSE_SECONDS_MIN
        for _ in range(RECORD_ATTEMPTS):
            try:
                await self._record(newest)
            except DatabaseUnavailableError:
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, _PAUSE_SECONDS_MAX)
            else:
                return
        self.lost_changes += len(newest)

    async def _record(self, changes: list[StateChange]) -> None:
        await self._moving.fetch(
            "record_simulations",
            [move.simulation_id for move in changes],
            [move.state for move in changes],
            _instants([move.sent_ms for move in changes]),
            _instants([move.decided_ms for move in changes]),
            _instants([move.failed_ms for move in changes]),
            [_json(move.failure) for move in changes],
            [move.response_code for move in changes],
            [move.approval_code for move in changes],
            [move.approved_minor for move in changes],
            [move.authorization_id for move in changes],
            [move.increase.simulation_id if move.increase else None for move in changes],
            [move.increase.amount_minor if move.increase else None for move in changes],
            self._auto_clear_seconds,
        )


async def _find(run: Run, follow_ups: Sequence[PreparedFollowUp]) -> dict[str, Simulation]:
    rows = await run("find_simulations", [follow_up.request.simulation_id for follow_up in follow_ups])
    return {
        row["id"]: Simulation(
            request=_decode_record(row["request"]),
            stan=row["stan"],
            rrn=row["rrn"],
            network_txn_id=row["network_txn_id"],
            failure=_decode_failure(row["failure"]) if row["failure"] and row["stan"] is None else None,
        )
        for row in rows
    }


async def _lock(run: Run, follow_ups: Sequence[PreparedFollowUp]) -> dict[str, SaleState]:
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


def _rows(simulations: Sequence[Simulation]) -> list[list[Any]]:
    """The columns of new rows."""
    requests = [simulation.request for simulation in simulations]
    return [
        [request.simulation_id for request in requests],
        [
            simulation.original.request.simulation_id if simulation.original else None
            for simulation in simulations
        ],
        [request.tenant_id for request in requests],
        [simulation.operation for simulation in simulations],
        [request.card_id for request in requests],
        [stored_request(request) for request in requests],
        [simulation.stan for simulation in simulations],
        [simulation.rrn for simulation in simulations],
        [simulation.network_txn_id for simulation in simulations],
        _instants([request.accepted_ms for request in requests]),
        _instants([simulation.failed_ms for simulation in simulations]),
        [_json(simulation.failure) for simulation in simulations],
    ]


def _entries(followed: dict[str, AppliedFollowUp]) -> list[list[Any]]:
    """The columns of the sales' new books."""
    return [
        list(followed),
        [each.store.open_minor for each in followed.values()],
        [each.store.presentments for each in followed.values()],
        [each.clock for each in followed.values()],
    ]


def original_of(row: Any, prefix: str = "") -> Original:
    """The sale whose columns stand in ``row``."""
    return Original(
        request=_decode_spend(row[f"{prefix}request"]),
        stan=row[f"{prefix}stan"],
        rrn=row[f"{prefix}rrn"],
        network_txn_id=row[f"{prefix}network_txn_id"],
    )


def opening_of(row: Any) -> Simulation:
    """The simulation whose columns stand in ``row``, with those of its sale under ``sale_``."""
    decode = _decode_spend if row["operation"] == "spend" else _decode_record
    return Simulation(
        request=decode(row["request"]),
        original=original_of(row, "sale_") if row["sale_request"] else None,
        stan=row["stan"],
        rrn=row["rrn"],
        network_txn_id=row["network_txn_id"],
    )


def stored_request(request: SpendRequest) -> str:
    """JSON of what the caller asked, readable as ``SpendRequest`` again; without CVV2 and authentication
    values."""
    public = msgspec.structs.replace(request, cvv2=None, auth_value=None, threeds_ref=None)
    return msgspec.json.encode(public).decode()


def _instants(instants_ms: list[int | None]) -> list[Any]:
    return [None if at_ms is None else to_datetime(at_ms) for at_ms in instants_ms]


def _json(failure: Failure | None) -> str | None:
    return None if failure is None else msgspec.json.encode(failure).decode()
