"""Which host owns which shard, and every way in which that changes.

Moves of shards hold ``moving``; each of their calls to a host has a time limit. The truth about ownership is
in the journal (epochs): if this table is wrong, commits fail and money is safe.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import Final

import msgspec
import structlog

from actors.database import DatabaseUnavailableError
from actors.peers import PeerFailedError, PeerGoneError, RoutingTable
from actors.placement import Move, adopt_orphans, even_out, hand_off
from engine.limits import MOVE_SECONDS, SHARD_COUNT

TABLE_WAIT_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 0.05

CallHost = Callable[[str, str, bytes], Awaitable[bytes]]
"""Incarnation, method and payload in; raises PeerGoneError and PeerFailedError."""

ReadEpochs = Callable[[Collection[int]], Awaitable[dict[int, int]]]
"""The newest epochs of shards, from the journal; raises DatabaseUnavailableError."""

_log = structlog.get_logger(__name__)
_encode = msgspec.msgpack.encode


class Ownership:
    """See the module. Every change is published as a newer routing table.

    ``read_epochs`` gives the epochs that a take is based on. Without it the takers read them themselves, and
    a take that reaches its host late can end a newer ownership.
    """

    def __init__(self, call_host: CallHost, read_epochs: ReadEpochs | None = None) -> None:
        self._call_host = call_host
        self._read_epochs = read_epochs
        self._owners: dict[int, str | None] = dict.fromkeys(range(SHARD_COUNT))
        # Greater than that of any earlier coordinator, so that routers adopt its tables.
        self._version = time.time_ns() // 1_000_000
        self._changed = asyncio.Condition()
        self.moving = asyncio.Lock()

    def learn(self, owners: Mapping[int, str | None]) -> None:
        """What the journal says."""
        self._owners |= owners

    def owners(self) -> set[str]:
        """Every host that owns something."""
        return {owner for owner in self._owners.values() if owner is not None}

    @property
    def unowned(self) -> int:
        """How many shards have no owner."""
        return sum(owner is None for owner in self._owners.values())

    async def table_after(self, version: int) -> RoutingTable:
        """The table as soon as it is newer than ``version``, or the one of now after a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TABLE_WAIT_SECONDS), self._changed:
                await self._changed.wait_for(lambda: self._version > version)
        return RoutingTable(self._version, tuple(self._owners[shard] for shard in range(SHARD_COUNT)))

    # --- moving shards ------------------------------------------------------------------------------------

    async def adopt_orphans(self, hosts: Collection[str]) -> None:
        """Repeats until every shard is with one of ``hosts``, which may change meanwhile: takers can die, and
        the journal can be away."""
        unable: set[str] = set()
        while hosts and (moves := adopt_orphans(self._owners, hosts, unable)):
            taken = await asyncio.gather(*(self._take(move) for move in moves))
            await self._publish()
            # The others are tried first; all of them again when none could take.
            unable = {move.taker for move, done in zip(moves, taken, strict=True) if not done}
            if unable:
                await asyncio.sleep(RETRY_SECONDS)

    async def even_out(self, hosts: Collection[str]) -> None:
        """Move the fewest shards after which all of ``hosts`` have as many."""
        for move in even_out(self._owners, hosts) if hosts else ():
            # Those of a host that is lost meanwhile do not wait until all is even.
            await self.adopt_orphans(hosts)
            if move.giver in hosts and move.taker in hosts:
                await self._hand_over(move)
        await self.adopt_orphans(hosts)

    async def hand_off(self, giver: str, takers: Collection[str]) -> None:
        """Move everything that ``giver`` owns to ``takers``; what cannot be moved in peace stays."""
        for move in hand_off(self._owners, giver, takers):
            await self._hand_over(move)

    async def _hand_over(self, move: Move) -> None:
        """The giver finishes what it has decided before the taker reads; meanwhile routers hold the
        commands back."""
        try:
            async with asyncio.timeout(MOVE_SECONDS):
                await self._call_host(move.giver or "", "release", _encode(move.shards))
        except (PeerGoneError, PeerFailedError):
            return
        except TimeoutError:
            # Whether it has let go or not, the taker's epochs are newer: its later commits fail.
            _log.warning("release_timed_out", incarnation=move.giver)
        await self._take(move)
        await self._publish()

    async def _take(self, move: Move) -> bool:
        """Whether the taker owns the shards now; a failure leaves them unowned, to be tried again."""
        taken = False
        try:
            async with asyncio.timeout(MOVE_SECONDS):
                taken = await self._ask_to_take(move) == b"taken"
        except (PeerGoneError, PeerFailedError, TimeoutError) as failure:
            _log.warning("taker_lost", incarnation=move.taker, error=type(failure).__name__)
        except DatabaseUnavailableError as failure:
            _log.warning("epochs_unreadable", error=type(failure).__name__)
        for shard in move.shards:
            self._owners[shard] = move.taker if taken else None
        _log.info("shards_moved", shards=len(move.shards), giver=move.giver, taker=move.taker, taken=taken)
        return taken

    async def _ask_to_take(self, move: Move) -> bytes:
        """Send the shards with the epochs they have now: once one of them has another owner, the take changes
        nothing."""
        if self._read_epochs is not None:
            known = await self._read_epochs(move.shards)
            # A host of the release before fails here: it takes shards alone.
            with suppress(PeerFailedError):
                return await self._call_host(move.taker, "take", _encode(known))
        return await self._call_host(move.taker, "take", _encode(move.shards))

    async def _publish(self) -> None:
        async with self._changed:
            self._version += 1
            self._changed.notify_all()
