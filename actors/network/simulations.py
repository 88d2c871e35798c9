"""The simulated network's book: STANs, and one row for each simulation, moved along as the wire speaks
(spec 3.4).

A row holds its STAN and RRN before the first byte of its message leaves: ``open`` returns after the commit.
Later moves are recorded behind the wire's back, in order and in batches; one that cannot be written for too
long is given up and counted, which the specification allows for: a row that stays ``accepted`` means that
the outcome is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from actors.network.batcher import Batcher
from actors.network.database import DatabaseUnavailableError, Lane
from engine.instant import to_datetime
from engine.limits import SIMULATION_BATCH_MAX, STAN_BLOCK
from engine.simulation import SpendRequest

RECORD_ATTEMPTS = 20
"""Tries to write a batch of moves, up to a second apart."""
_PAUSE_SECONDS_MIN = 0.05
_PAUSE_SECONDS_MAX = 1.0


class Failure(msgspec.Struct, frozen=True):
    """Why a simulation failed (contract section 6)."""

    stage: Literal["pre_build", "post_build"]
    code: str
    detail: str


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """A new row: ``accepted`` with its references, or ``failed`` before any message was built, without
    them."""

    request: SpendRequest
    stan: str | None = None
    rrn: str | None = None
    network_txn_id: str | None = None
    failed_ms: int | None = None
    failure: Failure | None = None


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A row's next state, with all that it then holds."""

    simulation_id: str
    state: Literal["sent", "failed", "decided"]
    sent_ms: int | None = None
    decided_ms: int | None = None
    failed_ms: int | None = None
    failure: Failure | None = None
    response_code: str | None = None
    approval_code: str | None = None
    approved_minor: int | None = None
    authorization_id: str | None = None


class Book(Protocol):
    """Where simulations are kept."""

    async def take_stans(self, count: int) -> list[int]:
        """``count`` numbers that have never been taken, ascending."""

    async def open(self, openings: Sequence[Opening]) -> None:
        """Makes new rows durable."""

    def move(self, move: Move) -> None:
        """Records ``move``, soon."""

    async def drain(self) -> None:
        """Waits until every move is recorded or given up."""


class PostgresBook:
    """The book in tables ``stan_blocks`` and ``simulations``. ``opening`` and ``moving`` are connections of
    their own, so that neither kind of write waits for the other."""

    def __init__(self, acquirer_id: str, opening: Lane, moving: Lane) -> None:
        self._acquirer_id = acquirer_id
        self._opening = opening
        self._moving = moving
        self._opens: Batcher[Opening] = Batcher(self._write_openings, SIMULATION_BATCH_MAX)
        self._moves: Batcher[Move] = Batcher(self._write_moves, SIMULATION_BATCH_MAX)
        self._block = range(0)
        self._taking = asyncio.Lock()
        self.lost_moves = 0
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

    async def open(self, openings: Sequence[Opening]) -> None:
        await asyncio.shield(self._opens.add(openings))

    def move(self, move: Move) -> None:
        self._moves.add((move,))

    async def drain(self) -> None:
        await self._moves.drain()

    async def _write_openings(self, openings: list[Opening]) -> None:
        requests = [opening.request for opening in openings]
        await self._opening.fetch(
            "insert_simulations",
            [request.simulation_id for request in requests],
            [request.tenant_id for request in requests],
            [request.card_id for request in requests],
            [stored_request(request) for request in requests],
            [opening.stan for opening in openings],
            [opening.rrn for opening in openings],
            [opening.network_txn_id for opening in openings],
            [to_datetime(request.accepted_ms) for request in requests],
            [None if opening.failed_ms is None else to_datetime(opening.failed_ms) for opening in openings],
            [_json(opening.failure) for opening in openings],
        )

    async def _write_moves(self, moves: list[Move]) -> None:
        newest = list(merge(moves))
        pause_seconds = _PAUSE_SECONDS_MIN
        for _ in range(RECORD_ATTEMPTS):
            try:
                await self._record(newest)
            except DatabaseUnavailableError:
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, _PAUSE_SECONDS_MAX)
            else:
                return
        self.lost_moves += len(newest)

    async def _record(self, moves: list[Move]) -> None:
        await self._moving.fetch(
            "record_simulations",
            [move.simulation_id for move in moves],
            [move.state for move in moves],
            *(
                [None if at_ms is None else to_datetime(at_ms) for at_ms in instants]
                for instants in (
                    [move.sent_ms for move in moves],
                    [move.decided_ms for move in moves],
                    [move.failed_ms for move in moves],
                )
            ),
            [_json(move.failure) for move in moves],
            [move.response_code for move in moves],
            [move.approval_code for move in moves],
            [move.approved_minor for move in moves],
            [move.authorization_id for move in moves],
        )


def merge(moves: Sequence[Move]) -> Sequence[Move]:
    """The last move of each simulation, with the instants of its earlier ones. What is decided stays so."""
    newest: dict[str, Move] = {}
    for move in moves:
        before = newest.get(move.simulation_id)
        if before is not None and before.state == "decided":
            continue
        if before is not None:
            move = msgspec.structs.replace(
                move, sent_ms=move.sent_ms or before.sent_ms, failed_ms=move.failed_ms or before.failed_ms
            )
        newest[move.simulation_id] = move
    return list(newest.values())


def stored_request(request: SpendRequest) -> str:
    """JSON of what the caller asked, readable as ``SpendRequest`` again; without CVV2 and authentication
    values."""
    public = msgspec.structs.replace(request, cvv2=None, auth_value=None, threeds_ref=None)
    return msgspec.json.encode(public).decode()


def _json(failure: Failure | None) -> str | None:
    return None if failure is None else msgspec.json.encode(failure).decode()
