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
from actors.network.database import DatabaseUnavailableError, Lane, Run
from actors.network.deadlines import Deadlines
from actors.network.simulations import Draft, Failure, Move, Opened, Opening, merge
from actors.network.stating import Stating
from engine.instant import to_datetime
from engine.limits import RESUME_HOURS, SIMULATION_BATCH_MAX, STAN_BLOCK
from engine.simulation import (
    Followed,
    FollowUpRecord,
    ForcePostRequest,
    Original,
    SaleBook,
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

    draft: Draft
    automatic: bool
    opened: Opened | None = None


class PostgresBook:
    """``opening`` and ``moving`` are connections of their own, so that neither kind of write waits for the
    other. A sale is due ``auto_clear_seconds`` after it was last added to; 0 is never."""

    def __init__(self, acquirer_id: str, opening: Lane, moving: Lane, *, auto_clear_seconds: int = 0) -> None:
        self._acquirer_id = acquirer_id
        self._opening = opening
        self._moving = moving
        self._auto_clear_seconds = auto_clear_seconds
        self._opens: Batcher[Opening] = Batcher(self._write_openings, SIMULATION_BATCH_MAX)
        self._follows: Batcher[_Asked] = Batcher(self._write_follow_ups, SIMULATION_BATCH_MAX)
        self._moves: Batcher[Move] = Batcher(self._write_moves, SIMULATION_BATCH_MAX, RECORD_REST_SECONDS)
        self._sent: dict[str, Move] = {}
        self._unanswered: Deadlines[str] = Deadlines(SENT_SECONDS, self._record_sent)
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

    async def follow(self, drafts: Sequence[Draft], *, automatic: bool = False) -> list[Opened]:
        asked = [_Asked(draft, automatic) for draft in drafts]
        await asyncio.shield(self._follows.add(asked))
        return [each.opened for each in asked if each.opened is not None]

    async def open_minor(self, simulation_id: str) -> int:
        rows = await self._moving.fetch("find_open_amount", simulation_id)
        return rows[0]["open_minor"] if rows else 0

    async def unanswered(self) -> list[Opening]:
        rows = await self._opening.fetch("find_unanswered", RESUME_HOURS)
        return [opening_of(row) for row in rows]

    def move(self, move: Move) -> None:
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

    async def _write_openings(self, openings: list[Opening]) -> None:
        await self._opening.fetch("insert_simulations", *_rows(openings))

    async def _write_follow_ups(self, asked: list[_Asked]) -> None:
        drafts = [each.draft for each in asked]

        async def work(run: Run) -> None:
            stating = Stating(await _find(run, drafts), await _lock(run, drafts))
            for each in asked:
                opened = stating.open(each.draft)
                each.opened = None if each.automatic and opened.opening.failure else opened
            fresh = [each.opened.opening for each in asked if each.opened and each.opened.fresh]
            if fresh:
                await run("insert_simulations", *_rows(fresh))
            if stating.followed:
                await run("enter_sales", *_entries(stating.followed), self._auto_clear_seconds)

        await self._opening.transact("follow", work)

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
            _instants([move.sent_ms for move in moves]),
            _instants([move.decided_ms for move in moves]),
            _instants([move.failed_ms for move in moves]),
            [_json(move.failure) for move in moves],
            [move.response_code for move in moves],
            [move.approval_code for move in moves],
            [move.approved_minor for move in moves],
            [move.authorization_id for move in moves],
            [move.addition.simulation_id if move.addition else None for move in moves],
            [move.addition.amount_minor if move.addition else None for move in moves],
            self._auto_clear_seconds,
        )


async def _find(run: Run, drafts: Sequence[Draft]) -> dict[str, Opening]:
    rows = await run("find_simulations", [draft.request.simulation_id for draft in drafts])
    return {
        row["id"]: Opening(
            request=_decode_record(row["request"]),
            stan=row["stan"],
            rrn=row["rrn"],
            network_txn_id=row["network_txn_id"],
            failure=_decode_failure(row["failure"]) if row["failure"] and row["stan"] is None else None,
        )
        for row in rows
    }


async def _lock(run: Run, drafts: Sequence[Draft]) -> dict[str, SaleBook]:
    requests = [draft.request for draft in drafts]
    sales = {
        request.original.request.simulation_id
        for request in requests
        if not isinstance(request, ForcePostRequest)
    }
    if not sales:
        return {}
    rows = await run("lock_sales", sorted(sales))
    return {row["simulation_id"]: SaleBook(row["open_minor"], row["presentments"]) for row in rows}


def _rows(openings: Sequence[Opening]) -> list[list[Any]]:
    """The columns of new rows."""
    requests = [opening.request for opening in openings]
    return [
        [request.simulation_id for request in requests],
        [opening.original.request.simulation_id if opening.original else None for opening in openings],
        [request.tenant_id for request in requests],
        [opening.operation for opening in openings],
        [request.card_id for request in requests],
        [stored_request(request) for request in requests],
        [opening.stan for opening in openings],
        [opening.rrn for opening in openings],
        [opening.network_txn_id for opening in openings],
        _instants([request.accepted_ms for request in requests]),
        _instants([opening.failed_ms for opening in openings]),
        [_json(opening.failure) for opening in openings],
    ]


def _entries(followed: dict[str, Followed]) -> list[list[Any]]:
    """The columns of the sales' new books."""
    return [
        list(followed),
        [each.book.open_minor for each in followed.values()],
        [each.book.presentments for each in followed.values()],
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


def opening_of(row: Any) -> Opening:
    """The simulation whose columns stand in ``row``, with those of its sale under ``sale_``."""
    decode = _decode_spend if row["operation"] == "spend" else _decode_record
    return Opening(
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
