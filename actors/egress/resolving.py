"""Resolves names through the machine's resolver, so that slow name servers delay only their own names.

Concurrent look-ups of one name share one request (single flight), look-ups have threads of their own, and an
answer is cached for about a second: long enough for a burst of deliveries, too short for a stale address to
matter. A party (a tenant, or the domain of the name if the tenant is unknown) has a share of the threads:
name servers that never answer delay only its own look-ups. The caller checks the addresses in each call.
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
    EGRESS_LOOKUP_CACHE_MAX,
    EGRESS_LOOKUP_CACHE_SECONDS,
    EGRESS_LOOKUPS_MAX,
    EGRESS_LOOKUPS_OF_PARTY_MAX,
    EGRESS_LOOKUPS_WAITING_MAX,
)

Lookup = Callable[[str], Awaitable[tuple[str, ...]]]
"""Returns all addresses of a name as text, in the order of preference. Raises ``OSError`` if it has none."""


class SystemLookup:
    """``getaddrinfo`` in its own threads: a name server that never answers occupies a thread for seconds."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(EGRESS_LOOKUPS_MAX, thread_name_prefix="egress-lookup")

    async def __call__(self, name: str) -> tuple[str, ...]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, _addresses, name)

    def close(self) -> None:
        """Release the threads; open look-ups end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _addresses(name: str) -> tuple[str, ...]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return tuple(dict.fromkeys(str(address[0]) for _, _, _, _, address in found))


class _PartyLookups:
    """Look-ups of one party: ``count`` includes open and waiting ones."""

    def __init__(self) -> None:
        self.count = 0
        self.slots = asyncio.Semaphore(EGRESS_LOOKUPS_OF_PARTY_MAX)


def _domain(name: str) -> str:
    """The last two labels of ``name``: all names under one domain count for one party."""
    return ".".join(name.rsplit(".", 2)[-2:])


class Resolver:
    """Addresses by name. The caller that created ``lookup`` closes it."""

    def __init__(self, lookup: Lookup, clock: Clock) -> None:
        self._lookup = lookup
        self._clock = clock
        self._cache: dict[str, tuple[float, tuple[Address, ...]]] = {}
        self._open: dict[str, asyncio.Task[tuple[Address, ...]]] = {}
        self._parties: dict[str, _PartyLookups] = {}

    async def addresses(self, name: str, party: str | None = None) -> tuple[Address, ...]:
        """All addresses of ``name``, at least one. The look-up counts for ``party``. Raises ``OSError``.

        Cancelling one caller does not affect the others.
        """
        cached = self._cache.get(name)
        if cached is not None and self._clock.monotonic() < cached[0]:
            return cached[1]
        task = self._open.get(name)
        if task is None:
            task = asyncio.create_task(self._look_up_for(name, party or _domain(name)))
            self._open[name] = task
            task.add_done_callback(lambda done: self._done(name, done))
        return await asyncio.shield(task)

    def close(self) -> None:
        """Cancel open look-ups."""
        for task in self._open.values():
            task.cancel()

    async def _look_up_for(self, name: str, party: str) -> tuple[Address, ...]:
        """Wait for a slot of the party, then look up. The slot is occupied until the thread is free."""
        lookups = self._parties.setdefault(party, _PartyLookups())
        if lookups.count >= EGRESS_LOOKUPS_WAITING_MAX:
            raise OSError("too many look-ups of one party wait")
        lookups.count += 1
        try:
            async with lookups.slots:
                return await self._find(name)
        finally:
            lookups.count -= 1
            if not lookups.count:
                del self._parties[party]

    async def _find(self, name: str) -> tuple[Address, ...]:
        try:
            # A scope names an interface of this machine. Such an address is link-local, also without it.
            found = tuple(ip_address(text.partition("%")[0]) for text in await self._lookup(name))
        except (ValueError, UnicodeError):
            raise OSError("the resolver's answer is not a list of addresses") from None
        if not found:
            raise OSError("the name has no addresses")
        if len(self._cache) >= EGRESS_LOOKUP_CACHE_MAX:
            self._cache.clear()
        self._cache[name] = (self._clock.monotonic() + EGRESS_LOOKUP_CACHE_SECONDS, found)
        return found

    def _done(self, name: str, task: asyncio.Task[tuple[Address, ...]]) -> None:
        self._open.pop(name, None)
        if not task.cancelled():
            task.exception()  # retrieved here, because all callers may have been cancelled
