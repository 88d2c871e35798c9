"""Announcing programme changes to every host, before or beside the caller's reply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from actors.journal.contract import Journal, Unreadable
from actors.shards.in_flight import InFlight
from actors.shards.pending import Pending
from engine.commands import (
    ChangeProgramme,
    ChangeProgrammeRule,
    CreateProgramme,
    CreateProgrammeRule,
    SetStandInPolicy,
    target_of,
)
from engine.programmes.programme import Programme
from engine.replies import Done, NotExecuted, Reply

_log = structlog.get_logger(__name__)

# Created once: a union in ``isinstance`` builds an object at each use.
_CONFIGURING = (CreateProgramme, ChangeProgramme, SetStandInPolicy, CreateProgrammeRule, ChangeProgrammeRule)

Publish = Callable[[Programme], Awaitable[None]]
"""Announces a programme's new version to every host; returns when all hosts have it."""


class Announcements:
    """Gives replies, and announces the programme changes of their commands."""

    def __init__(self, journal: Journal, publish: Publish, in_flight: InFlight) -> None:
        self._journal = journal
        self._publish = publish
        self._in_flight = in_flight
        self.tasks: set[asyncio.Task[None]] = set()
        """Open announcements."""

    def resolve(self, pending: Pending, reply: Reply) -> None:
        """Give the caller its reply. A change of a programme's configuration is acknowledged after every host
        has it. The start and end of an outage are announced beside the reply, because no decision depends on
        them."""
        command = pending.command
        if isinstance(command, _CONFIGURING) and isinstance(reply, Done):
            self._spawn(self._announce_then_resolve(pending, reply))
            return
        if pending.broadcast and pending.programme is not None:
            self._spawn(self._announce(pending.programme))
        self._in_flight.resolve(pending, reply)

    async def wait(self) -> None:
        """Wait for all open announcements."""
        await asyncio.gather(*self.tasks)

    async def _announce_then_resolve(self, pending: Pending, reply: Done) -> None:
        """Publish the newest version, then reply. A stored reply can belong to a change whose host died
        before it announced the change, so the version then comes from the journal and not from this host's
        memory."""
        outcome: Reply = reply
        try:
            await self._publish(pending.programme or await self._newest(target_of(pending.command)))
        except Exception as fault:  # noqa: BLE001 - after any failure the caller must ask again
            _log.warning("announcement_failed", error=type(fault).__name__)
            outcome = NotExecuted("unavailable")
        self._in_flight.resolve(pending, outcome)

    async def _announce(self, programme: Programme) -> None:
        try:
            await self._publish(programme)
        except Exception as fault:  # noqa: BLE001 - hosts refresh their snapshots periodically
            _log.warning("announcement_failed", error=type(fault).__name__)

    async def _newest(self, programme_id: str) -> Programme:
        newest = (await self._journal.load_programmes([programme_id]))[programme_id]
        if isinstance(newest, Unreadable):
            raise ValueError(newest.error)
        return newest

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
