"""The simulation with two coordinators that both lead: each moves shards by its own table, and their calls to
hosts are late, get lost, or take effect after they were given up."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress

import msgspec

from actors.cluster.ownership import Ownership
from actors.journal.contract import JournalError
from actors.peers import PeerFailedError, PeerGoneError
from tests.support.actors.shards.simulation import SHARDS, Installation, SimulatedHost

_epochs = msgspec.msgpack.Decoder(dict[int, int]).decode
_shards = msgspec.msgpack.Decoder(list[int]).decode


class RivalInstallation(Installation):
    """Clients follow the journal's owners; both coordinators disturb them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.moves = 0
        self.both = [Ownership(self._call_host, self._read_epochs) for _ in range(2)]

    async def disturb_hosts(self) -> None:
        """Again and again: one coordinator takes the shards of dead hosts, evens out, or empties a host, in
        the middle of what the other one does. Sometimes a host dies."""
        while True:
            await asyncio.sleep(self.dice.expovariate(2 / self.rates.host_fault_seconds))
            if self.dice.random() < 0.3 and len(self.living()) > 1:
                self.dice.choice(self.living()).die()
            while len(self.living()) < 3:
                await self.create()
            self.spawn(self._move(self.dice.choice(self.both)))

    async def watch(self) -> None:
        """Clients learn the owners late, and shards that lost their owner get another one."""
        while True:
            await asyncio.sleep(0.05)
            for shard in SHARDS:
                owner = self.store.owners[shard]
                if owner is not None and self.hosts[owner].alive:
                    self.owners[shard] = owner
            if self.dice.random() < 0.1:
                await self.repair()

    async def _move(self, ownership: Ownership) -> None:
        names = [host.name for host in self.living()]
        self.note(f"coordinator {self.both.index(ownership)} moves")
        if self.dice.random() < 0.5:
            ownership.learn(dict(enumerate(self.store.owners)))
        kind = self.dice.choice(("adopt", "even out", "empty"))
        with suppress(TimeoutError):
            # A coordinator that is killed gives up in the middle.
            async with asyncio.timeout(self.dice.expovariate(1 / 2)):
                if kind == "adopt":
                    await ownership.adopt_orphans(names)
                elif kind == "even out":
                    await ownership.even_out(names)
                else:
                    await ownership.hand_off(self.dice.choice(names), names)

    async def _call_host(self, incarnation: str, method: str, payload: bytes) -> bytes:
        host = self.hosts.get(incarnation)
        if host is None or not host.alive:
            raise PeerGoneError(incarnation)
        executed = asyncio.ensure_future(self._executed(host, method, payload))
        self._tasks.add(executed)  # type: ignore[arg-type]
        executed.add_done_callback(self._tasks.discard)
        executed.add_done_callback(lambda done: done.cancelled() or done.exception())
        # The call goes on when its caller has given up.
        return await asyncio.shield(executed)

    async def _executed(self, host: SimulatedHost, method: str, payload: bytes) -> bytes:
        if self.dice.random() < 0.3:
            await asyncio.sleep(self.dice.expovariate(1))
        if not host.alive:
            raise PeerGoneError(host.name)
        if method == "take":
            expected = _epochs(payload)
            try:
                await host.host.take(list(expected), expected)
            except JournalError:
                return b"unavailable"
            self.moves += 1
            return b"taken"
        try:
            await host.host.release(_shards(payload))
        except (JournalError, TimeoutError) as failure:
            raise PeerFailedError(type(failure).__name__) from None
        return b""

    async def _read_epochs(self, shards: Collection[int]) -> dict[int, int]:
        await asyncio.sleep(0.001)
        return {shard: self.store.epochs[shard] for shard in shards}
