"""The owner of each shard, and all moves of shards.

A shard takes part in one move at a time, and no move waits for another: shards of a dead host are taken while
shards of other hosts are handed over. Each call to a host has a time limit, and ends at once when the host is
lost. The journal decides who owns a shard (epochs). If this table is wrong, commits fail and money is safe.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import Final

import msgspec
import structlog

from actors.database import DatabaseUnavailableError
from actors.peers import PeerFailedError, PeerGoneError, RoutingTable
from actors.placement import ShardMove, adopt_orphans, even_out, hand_off
from engine.limits import MOVE_SECONDS, SHARD_COUNT, TABLE_WAIT_SECONDS

RETRY_SECONDS: Final = 0.05

CallHost = Callable[[str, str, bytes], Awaitable[bytes]]
"""Takes incarnation, method and payload; raises PeerGoneError and PeerFailedError."""

Reserves = Callable[[Mapping[int, str | None]], Collection[str]]
"""Takes the owners of all shards; returns the hosts that should own none (``placement.reserves``)."""

ReadEpochs = Callable[[Collection[int]], Awaitable[dict[int, int]]]
"""Reads the newest epochs of shards from the journal; raises DatabaseUnavailableError."""

_log = structlog.get_logger(__name__)
_encode = msgspec.msgpack.encode


class Ownership:
    """Publishes every change as a newer routing table.

    A take only succeeds from the epochs that ``read_epochs`` returned before it. Without ``read_epochs``,
    takers read the epochs themselves, and a delayed take can end a newer ownership. ``reserves`` is called
    before each move.
    """

    def __init__(
        self,
        call_host: CallHost,
        read_epochs: ReadEpochs | None = None,
        reserves: Reserves = lambda _owners: (),
    ) -> None:
        self._call_host = call_host
        self._reserves = reserves
        self._read_epochs = read_epochs
        self._owners: dict[int, str | None] = dict.fromkeys(range(SHARD_COUNT))
        # Greater than the version of any earlier coordinator, so that routers adopt the new tables.
        self._version = time.time_ns() // 1_000_000
        self._changed = asyncio.Condition()
        self._moving: set[int] = set()
        """The shards of the moves under way."""
        self._busy: Counter[str] = Counter()
        """The takers of the moves under way between living hosts."""

    def learn(self, owners: Mapping[int, str | None]) -> None:
        """Adopt the owners that the journal has."""
        self._owners |= owners

    def owners(self) -> set[str]:
        """All hosts that own at least one shard."""
        return {owner for owner in self._owners.values() if owner is not None}

    @property
    def unowned(self) -> int:
        """The number of shards without an owner."""
        return sum(owner is None for owner in self._owners.values())

    async def table_after(self, version: int) -> RoutingTable:
        """Wait until the table is newer than ``version``, or for ``TABLE_WAIT_SECONDS``; returns the current
        table."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TABLE_WAIT_SECONDS), self._changed:
                await self._changed.wait_for(lambda: self._version > version)
        owners = tuple(self._owners[shard] for shard in range(SHARD_COUNT))
        return RoutingTable(self._version, owners, tuple(sorted(self._reserves(self._owners))))

    async def wait_until_taken_from(self, hosts: Collection[str]) -> None:
        """Wait until every shard has an owner and none of ``hosts`` owns one. The epochs then make later
        commits of ``hosts`` fail. The last owner of a shard without an owner is not known, and can still
        commit."""
        unsafe = {None, *hosts}
        async with self._changed:
            await self._changed.wait_for(lambda: unsafe.isdisjoint(self._owners.values()))

    # --- moving shards ------------------------------------------------------------------------------------

    async def adopt_orphans(self, hosts: Collection[str], doubtful: Collection[str] = ()) -> None:
        """Move shards until each is owned by one of ``hosts``, except those of moves under way, whose movers
        call this afterwards. ``hosts`` may change meanwhile; failed takes are repeated, because takers can
        die and the journal can be unavailable. Hosts in ``doubtful`` are asked only if there is no other
        host, or no other host can take. Reserves are asked before those."""
        # A taker that hangs in another move must not delay these shards too.
        unable = {*self._busy, *doubtful}
        while hosts and (
            moves := adopt_orphans(self._resting(), hosts, unable, self._reserves(self._owners))
        ):
            taken = await asyncio.gather(*(self._give(move) for move in moves))
            # Try the other hosts first; try all again once none of them could take.
            unable = {move.taker for move, done in zip(moves, taken, strict=True) if not done}
            if unable:
                await asyncio.sleep(RETRY_SECONDS)

    async def even_out(self, hosts: Collection[str]) -> None:
        """Move the fewest shards after which reserves own none, and the shard counts of the other ``hosts``
        differ by at most one."""
        for move in even_out(self._owners, hosts, self._reserves(self._owners)) if hosts else ():
            if move.giver in hosts and move.taker in hosts:
                await self._hand_over(move)
                await self.adopt_orphans(hosts)

    async def hand_off(self, giver: str, takers: Collection[str]) -> None:
        """Move all shards of ``giver`` to ``takers``, to reserves only if there are no others. Shards that
        ``giver`` does not release stay."""
        serving = set(takers).difference(self._reserves(self._owners))
        for move in hand_off(self._owners, giver, serving or takers):
            await self._hand_over(move)

    def _resting(self) -> dict[int, str | None]:
        """The owners of the shards that take part in no move."""
        return {shard: owner for shard, owner in self._owners.items() if shard not in self._moving}

    async def _give(self, move: ShardMove) -> bool:
        """Have the taker take shards without a living owner. Returns whether it owns them now."""
        self._moving.update(move.shards)
        try:
            return await self._take(move)
        finally:
            self._moving.difference_update(move.shards)

    async def _hand_over(self, planned: ShardMove) -> None:
        """Have the giver make its decisions durable and release the shards, then have the taker take them.
        Routers hold back the commands meanwhile. Shards that have moved since the plan stay."""
        resting = self._resting()
        shards = tuple(shard for shard in planned.shards if resting.get(shard) == planned.giver)
        if not shards:
            return
        move = msgspec.structs.replace(planned, shards=shards)
        self._moving.update(shards)
        self._busy[move.taker] += 1
        try:
            if await self._release(move):
                await self._take(move)
        finally:
            self._moving.difference_update(shards)
            self._busy -= Counter([move.taker])

    async def _release(self, move: ShardMove) -> bool:
        """Returns whether the shards can be taken now."""
        try:
            async with asyncio.timeout(MOVE_SECONDS):
                await self._call_host(move.giver or "", "release", _encode(move.shards))
        except (PeerGoneError, PeerFailedError):
            return False
        except TimeoutError:
            # It may still own the shards; the taker's newer epochs make its later commits fail.
            _log.warning("release_timed_out", incarnation=move.giver)
        return True

    async def _take(self, move: ShardMove) -> bool:
        """Returns whether the taker now owns the shards. After a failure they have no owner."""
        taken = False
        try:
            async with asyncio.timeout(MOVE_SECONDS):
                taken = await self._call_take(move) == b"taken"
        except (PeerGoneError, PeerFailedError, TimeoutError) as failure:
            _log.warning("taker_lost", incarnation=move.taker, error=type(failure).__name__)
        except DatabaseUnavailableError as failure:
            _log.warning("epochs_unreadable", error=type(failure).__name__)
        for shard in move.shards:
            self._owners[shard] = move.taker if taken else None
        _log.info("shards_moved", shards=len(move.shards), giver=move.giver, taker=move.taker, taken=taken)
        # At once: commands must not wait for the other moves.
        await self.publish()
        return taken

    async def _call_take(self, move: ShardMove) -> bytes:
        """Send the shards with their current epochs. If the epoch of a shard has changed when the take is
        executed, the take changes nothing."""
        if self._read_epochs is not None:
            known = await self._read_epochs(move.shards)
            # A host of the release before accepts only a list of shards.
            with suppress(PeerFailedError):
                return await self._call_host(move.taker, "take", _encode(known))
        return await self._call_host(move.taker, "take", _encode(move.shards))

    async def publish(self) -> None:
        """Make the table newer: owners or reserves have changed."""
        async with self._changed:
            self._version += 1
            self._changed.notify_all()
