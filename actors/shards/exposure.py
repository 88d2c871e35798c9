"""Asking the owner of a programme: for exposure to stand in, and to end an outage.

Asks of many cards for one programme travel together: while one command is under way the next one collects.
A grant that comes too late stays reserved; money that might have been spent is never counted as unspent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from actors.batcher import Batcher
from actors.ids import new_id_beside
from engine.commands import Command, EndOutage, GrantStandIns
from engine.ids import key_of
from engine.limits import REST_DEADLINE_MS, STAND_IN_ASKS_MAX, STAND_IN_TIMEOUT_MS
from engine.programmes.programme import Programme
from engine.programmes.stand_in import Grant, StandInRequest
from engine.replies import Done, Granted, Reply

_log = structlog.get_logger(__name__)

Submit = Callable[[Command, int], Awaitable[Reply]]
"""Have an owner execute a command within so many milliseconds."""


class _Asked:
    """An ask, when it was made (the loop's time) and, once its batch is back, its grant."""

    __slots__ = ("ask", "at", "grant")

    def __init__(self, ask: StandInRequest, at: float) -> None:
        self.ask = ask
        self.at = at
        self.grant: Grant | None = None


class Exposure:
    """The programmes' owners as one host sees them."""

    def __init__(self, submit: Submit, fresh_id: Callable[[str], str] = new_id_beside) -> None:
        self._submit = submit
        self._fresh_id = fresh_id
        self._lanes: dict[str, Batcher[_Asked]] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._ended: dict[str, str] = {}
        """The last outage of each programme that was seen to have ended; snapshots may still name it."""

    async def grant(self, programme_id: str, ask: StandInRequest) -> Grant | None:
        """What the owner says to ``ask``; ``None`` when it cannot be asked in time."""
        asked = _Asked(ask, asyncio.get_running_loop().time())
        await self._lane(programme_id).add((asked,))
        return asked.grant

    def answered(self, programme: Programme) -> None:
        """End the outage that ``programme`` knows of; once, however many answers come meanwhile."""
        outage = programme.outage
        known = self._ended.get(programme.config.id)
        if outage is not None and outage.id != known and programme.config.id not in self._ending:
            task = asyncio.get_running_loop().create_task(self._end(programme.config.id, outage.id))
            self._ending[programme.config.id] = task

    async def stop(self) -> None:
        """End nothing any more."""
        tasks = tuple(self._ending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _lane(self, programme_id: str) -> Batcher[_Asked]:
        lane = self._lanes.get(programme_id)
        if lane is None:

            async def flush(batch: list[_Asked]) -> None:
                await self._grant(programme_id, batch)

            lane = self._lanes[programme_id] = Batcher(flush, STAND_IN_ASKS_MAX)
        return lane

    async def _grant(self, programme_id: str, batch: list[_Asked]) -> None:
        """Ask for the whole batch, in the time that its oldest ask has left: nobody's wait is longer."""
        give_up = batch[0].at + STAND_IN_TIMEOUT_MS / 1000
        try:
            async with asyncio.timeout_at(give_up):
                reply = await self._submit(self._command(programme_id, batch), STAND_IN_TIMEOUT_MS)
        except TimeoutError:
            _log.warning("stand_in_owner_unreachable", programme_id=programme_id, asks=len(batch))
            return
        if isinstance(reply, Granted):
            for asked, grant in zip(batch, reply.grants, strict=True):
                asked.grant = grant

    def _command(self, programme_id: str, batch: list[_Asked]) -> GrantStandIns:
        id_ = self._fresh_id(programme_id)
        asks = tuple(asked.ask for asked in batch)
        return GrantStandIns(id=id_, command_key=key_of(id_), programme_id=programme_id, asks=asks)

    async def _end(self, programme_id: str, outage_id: str) -> None:
        """One attempt; the next usable answer makes another while the outage is still known."""
        id_ = self._fresh_id(programme_id)
        command = EndOutage(id=id_, command_key=key_of(id_), programme_id=programme_id, outage_id=outage_id)
        try:
            reply = await self._submit(command, REST_DEADLINE_MS)
            if isinstance(reply, Done):
                self._ended[programme_id] = outage_id
            else:
                _log.warning("outage_not_ended", programme_id=programme_id)
        finally:
            self._ending.pop(programme_id, None)
