"""Names to addresses, through the machine's own resolver, without letting a slow name server hold anyone up.

One look-up of a name serves everybody who waits for it, look-ups have threads of their own, and an answer is
used for about a second: long enough for a burst of deliveries, too short to be a cache anybody relies on.
A party (a tenant, or the domain of the name where the tenant is not known) has a share of the threads: name
servers that never answer keep its own look-ups waiting and no others.
Which address may be used is not decided here, and is decided anew in each call.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address

from actors.clock import Clock
from actors.egress.addresses import Address
from engine.limits import (
    EGRESS_ANSWERS_KEPT_MAX,
    EGRESS_ANSWERS_KEPT_SECONDS,
    EGRESS_LOOKUPS_MAX,
    EGRESS_LOOKUPS_OF_PARTY_MAX,
    EGRESS_LOOKUPS_WAITING_MAX,
)

Lookup = Callable[[str], Awaitable[tuple[str, ...]]]
"""All addresses of a name as text, in the order of preference. Raises ``OSError`` when there are none."""


class SystemLookup:
    """``getaddrinfo`` in threads of its own: a name server that never answers keeps a thread for seconds."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(EGRESS_LOOKUPS_MAX, thread_name_prefix="egress-lookup")

    async def __call__(self, name: str) -> tuple[str, ...]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, _addresses, name)

    def close(self) -> None:
        """Let go of the threads; look-ups under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _addresses(name: str) -> tuple[str, ...]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return tuple(dict.fromkeys(str(address[0]) for _, _, _, _, address in found))


class _Share:
    """Look-ups of one party: ``asked`` counts those under way and those that wait."""

    def __init__(self) -> None:
        self.asked = 0
        self.places = asyncio.Semaphore(EGRESS_LOOKUPS_OF_PARTY_MAX)


def _domain(name: str) -> str:
    """The last two labels of ``name``: names made up under one domain share the places of one party."""
    return ".".join(name.rsplit(".", 2)[-2:])


class Resolver:
    """Addresses by name. The lookup belongs to whoever made it."""

    def __init__(self, lookup: Lookup, clock: Clock) -> None:
        self._lookup = lookup
        self._clock = clock
        self._kept: dict[str, tuple[float, tuple[Address, ...]]] = {}
        self._under_way: dict[str, asyncio.Task[tuple[Address, ...]]] = {}
        self._shares: dict[str, _Share] = {}

    async def addresses(self, name: str, party: str | None = None) -> tuple[Address, ...]:
        """All addresses of ``name``, at least one; ``party`` is charged with the look-up. Raises ``OSError``.

        A caller that gives up leaves the look-up to the others.
        """
        kept = self._kept.get(name)
        if kept is not None and self._clock.monotonic() < kept[0]:
            return kept[1]
        task = self._under_way.get(name)
        if task is None:
            task = asyncio.create_task(self._in_share(name, party or _domain(name)))
            self._under_way[name] = task
            task.add_done_callback(lambda done: self._done(name, done))
        return await asyncio.shield(task)

    def close(self) -> None:
        """Give up what is under way."""
        for task in self._under_way.values():
            task.cancel()

    async def _in_share(self, name: str, party: str) -> tuple[Address, ...]:
        """``_find`` once one of the party's places is free; a place is kept until its thread is free."""
        share = self._shares.setdefault(party, _Share())
        if share.asked >= EGRESS_LOOKUPS_WAITING_MAX:
            raise OSError("too many look-ups of one party wait")
        share.asked += 1
        try:
            async with share.places:
                return await self._find(name)
        finally:
            share.asked -= 1
            if not share.asked:
                del self._shares[party]

    async def _find(self, name: str) -> tuple[Address, ...]:
        try:
            # A scope names an interface of this machine; what carries one is link-local and says so without.
            found = tuple(ip_address(text.partition("%")[0]) for text in await self._lookup(name))
        except (ValueError, UnicodeError):
            raise OSError("the resolver's answer is not a list of addresses") from None
        if not found:
            raise OSError("the name has no addresses")
        if len(self._kept) >= EGRESS_ANSWERS_KEPT_MAX:
            self._kept.clear()
        self._kept[name] = (self._clock.monotonic() + EGRESS_ANSWERS_KEPT_SECONDS, found)
        return found

    def _done(self, name: str, task: asyncio.Task[tuple[Address, ...]]) -> None:
        self._under_way.pop(name, None)
        if not task.cancelled():
            task.exception()  # seen by whoever waits; nobody may be left
