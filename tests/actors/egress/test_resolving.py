"""Look-ups are shared by concurrent callers and cached briefly; slow name servers delay only their names."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address

import pytest

from actors.egress import resolving
from actors.egress.resolving import Resolver, SystemLookup
from engine.limits import (
    EGRESS_LOOKUP_CACHE_SECONDS,
    EGRESS_LOOKUPS_MAX,
    EGRESS_LOOKUPS_OF_PARTY_MAX,
)

PUBLIC = ip_address("93.184.216.34")


class ManualClock:
    """A clock that only tests move."""

    now = 0.0

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now


class NameServer:
    """A name server that answers while ``answering`` is set, and never for names that begin with ``slow``."""

    def __init__(self, *answer: str) -> None:
        self.answer = answer
        self.requests = 0
        self.answering = asyncio.Event()
        self.answering.set()

    async def __call__(self, name: str) -> tuple[str, ...]:
        self.requests += 1
        await self.answering.wait()
        if name.startswith("slow"):
            await asyncio.Event().wait()
        if name.startswith("nowhere"):
            raise OSError("no such name")
        return self.answer


async def test_answer_is_cached_for_its_lifetime() -> None:
    server, clock = NameServer(str(PUBLIC)), ManualClock()
    resolver = Resolver(server, clock)
    for _ in range(3):
        assert await resolver.addresses("a.example") == (PUBLIC,)
    assert server.requests == 1
    clock.now += EGRESS_LOOKUP_CACHE_SECONDS
    await resolver.addresses("a.example")
    assert server.requests == 2


async def test_failure_is_not_cached() -> None:
    server = NameServer()
    resolver = Resolver(server, ManualClock())
    for _ in range(2):
        with pytest.raises(OSError, match="no such name"):
            await resolver.addresses("nowhere.example")
    assert server.requests == 2


@pytest.mark.parametrize("answer", [(), ("not an address",), ("93.184.216.34", "")], ids=str)
async def test_empty_or_invalid_answer_is_a_failure(answer: tuple[str, ...]) -> None:
    with pytest.raises(OSError, match="addresses"):
        await Resolver(NameServer(*answer), ManualClock()).addresses("a.example")


async def test_callers_share_a_look_up_and_cancelling_one_does_not_affect_the_others() -> None:
    server = NameServer(str(PUBLIC))
    server.answering.clear()
    resolver = Resolver(server, ManualClock())
    waiting = [asyncio.create_task(resolver.addresses("a.example")) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    server.answering.set()
    assert await asyncio.gather(*waiting[1:]) == [(PUBLIC,)] * 4
    assert server.requests == 1
    assert waiting[0].cancelled()


async def test_name_without_an_answer_does_not_delay_others() -> None:
    resolver = Resolver(NameServer(str(PUBLIC)), ManualClock())
    stuck = asyncio.create_task(resolver.addresses("slow.example"))
    await asyncio.sleep(0)
    assert await resolver.addresses("quick.example") == (PUBLIC,)
    assert not stuck.done()
    resolver.close()
    with pytest.raises(asyncio.CancelledError):
        await stuck


async def test_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "EGRESS_LOOKUP_CACHE_MAX", 3)
    server = NameServer(str(PUBLIC))
    resolver = Resolver(server, ManualClock())
    for number in range(7):
        await resolver.addresses(f"{number}.example")
    await resolver.addresses("6.example")
    assert server.requests == 7, "the newest answer is cached"
    await resolver.addresses("0.example")
    assert server.requests == 8, "the oldest answer is not"


async def test_system_resolver_resolves_localhost() -> None:
    lookup = SystemLookup()
    found = await lookup("localhost")
    assert found
    assert all(ip_address(text).is_loopback for text in found)
    lookup.close()


async def test_party_with_silent_name_servers_leaves_threads_to_others() -> None:
    server = NameServer(str(PUBLIC))
    resolver = Resolver(server, ManualClock())
    stuck = [
        asyncio.create_task(resolver.addresses(f"slow-{number}.tarpit-{number}.example", "tarpit"))
        for number in range(EGRESS_LOOKUPS_MAX)
    ]
    for _ in range(5):
        await asyncio.sleep(0)
    assert server.requests == EGRESS_LOOKUPS_OF_PARTY_MAX
    assert await resolver.addresses("quick.example", "another") == (PUBLIC,)
    resolver.close()
    await asyncio.gather(*stuck, return_exceptions=True)
    assert await resolver.addresses("quick.tarpit.example", "tarpit") == (PUBLIC,)


async def test_names_of_one_domain_count_for_one_party() -> None:
    server = NameServer(str(PUBLIC))
    resolver = Resolver(server, ManualClock())
    stuck = [asyncio.create_task(resolver.addresses(f"slow-{n}.tarpit.example")) for n in range(20)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert server.requests == EGRESS_LOOKUPS_OF_PARTY_MAX
    assert await resolver.addresses("quick.example") == (PUBLIC,)
    resolver.close()
    await asyncio.gather(*stuck, return_exceptions=True)


async def test_waiting_look_ups_of_a_party_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "EGRESS_LOOKUPS_WAITING_MAX", 10)
    resolver = Resolver(NameServer(str(PUBLIC)), ManualClock())
    stuck = [asyncio.create_task(resolver.addresses(f"slow-{n}.example", "tarpit")) for n in range(10)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(OSError, match="too many look-ups"):
        await resolver.addresses("one-more.example", "tarpit")
    resolver.close()
    await asyncio.gather(*stuck, return_exceptions=True)
