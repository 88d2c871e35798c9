"""Commands to the owner of a programme: reserve exposure to stand in, and end an outage.

Requests of many cards for one programme are batched: while one command is in flight the next one collects. A
grant that arrives too late stays reserved: money that may have been spent is never counted as unspent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from actors.batcher import Batcher
from actors.ids import new_id_beside
from engine.commands import Command, EndOutage, GrantStandIns, PreviewStandIn
from engine.ids import key_of
from engine.limits import REST_DEADLINE_MS, STAND_IN_REQUESTS_MAX, STAND_IN_TIMEOUT_MS
from engine.programmes.programme import Programme
from engine.programmes.stand_in import Grant, StandInRequest
from engine.replies import Done, Granted, Reply

_log = structlog.get_logger(__name__)

Submit = Callable[[Command, int], Awaitable[Reply]]
"""Has an owner execute a command within a number of milliseconds."""


class _GrantCall:
    """A request, its time (the loop's), and its grant, which is set when the batch has returned."""

    __slots__ = ("at", "grant", "request")

    def __init__(self, request: StandInRequest, at: float) -> None:
        self.request = request
        self.at = at
        self.grant: Grant | None = None


class ExposureClient:
    """One host's client of the programmes' owners."""

    def __init__(self, submit: Submit, fresh_id: Callable[[str], str] = new_id_beside) -> None:
        self._submit = submit
        self._fresh_id = fresh_id
        self._batchers: dict[str, Batcher[_GrantCall]] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._ended: dict[str, str] = {}
        """The last ended outage of each programme; snapshots can still contain it."""

    async def grant(self, programme_id: str, request: StandInRequest) -> Grant | None:
        """The owner's grant; ``None`` when the owner does not answer in time."""
        call = _GrantCall(request, asyncio.get_running_loop().time())
        await self._batcher(programme_id).add((call,))
        return call.grant

    async def preview(self, programme_id: str, request: StandInRequest) -> Grant | None:
        """The grant that the owner would give now, without a reservation; ``None`` when the owner does not
        answer in time."""
        id_ = self._fresh_id(programme_id)
        command = PreviewStandIn(id=id_, command_key=key_of(id_), programme_id=programme_id, ask=request)
        reply = await self._submit(command, STAND_IN_TIMEOUT_MS)
        return reply.grants[0] if isinstance(reply, Granted) else None

    def end_outage(self, programme: Programme) -> None:
        """End the outage in ``programme``, if any. One command at a time for each programme."""
        outage = programme.outage
        known = self._ended.get(programme.config.id)
        if outage is not None and outage.id != known and programme.config.id not in self._ending:
            task = asyncio.get_running_loop().create_task(self._end(programme.config.id, outage.id))
            self._ending[programme.config.id] = task

    async def stop(self) -> None:
        """Cancel the commands that end outages."""
        tasks = tuple(self._ending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _batcher(self, programme_id: str) -> Batcher[_GrantCall]:
        batcher = self._batchers.get(programme_id)
        if batcher is None:

            async def flush(batch: list[_GrantCall]) -> None:
                await self._grant(programme_id, batch)

            batcher = self._batchers[programme_id] = Batcher(flush, STAND_IN_REQUESTS_MAX)
        return batcher

    async def _grant(self, programme_id: str, batch: list[_GrantCall]) -> None:
        """Request the whole batch within the time that its oldest request has left."""
        deadline = batch[0].at + STAND_IN_TIMEOUT_MS / 1000
        try:
            async with asyncio.timeout_at(deadline):
                reply = await self._submit(self._command(programme_id, batch), STAND_IN_TIMEOUT_MS)
        except TimeoutError:
            _log.warning("stand_in_owner_unreachable", programme_id=programme_id, requests=len(batch))
            return
        if isinstance(reply, Granted):
            for call, grant in zip(batch, reply.grants, strict=True):
                call.grant = grant

    def _command(self, programme_id: str, batch: list[_GrantCall]) -> GrantStandIns:
        id_ = self._fresh_id(programme_id)
        requests = tuple(call.request for call in batch)
        return GrantStandIns(id=id_, command_key=key_of(id_), programme_id=programme_id, asks=requests)

    async def _end(self, programme_id: str, outage_id: str) -> None:
        """Try once. While the outage is still known, the next usable answer tries again."""
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
