"""Look-ups: one for everybody who waits, an answer for a moment, and nobody held up by a slow name server."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address

import pytest

from actors.egress import resolving
from actors.egress.resolving import Resolver, SystemLookup
from engine.limits import (
    EGRESS_ANSWERS_KEPT_SECONDS,
    EGRESS_LOOKUPS_MAX,
    EGRESS_LOOKUPS_OF_PARTY_MAX,
)

PUBLIC = ip_address("93.184.216.34")


class Moments:
    """A clock that a test moves."""

    now = 0.0

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now


class Server:
    """A name server that answers when it is told to."""

    def __init__(self, *answer: str) -> None:
        self.answer = answer
        self.asked = 0
        self.answering = asyncio.Event()
        self.answering.set()

    async def __call__(self, name: str) -> tuple[str, ...]:
        self.asked += 1
        await self.answering.wait()
        if name.startswith("slow"):
            await asyncio.Event().wait()
        if name.startswith("nowhere"):
            raise OSError("no such name")
        return self.answer


async def test_an_answer_is_used_for_a_moment() -> None:
    server, clock = Server(str(PUBLIC)), Moments()
    resolver = Resolver(server, clock)
    for _ in range(3):
        assert await resolver.addresses("a.example") == (PUBLIC,)
    assert server.asked == 1
    clock.now += EGRESS_ANSWERS_KEPT_SECONDS
    await resolver.addresses("a.example")
    assert server.asked == 2


async def test_a_failure_is_not_kept() -> None:
    server = Server()
    resolver = Resolver(server, Moments())
    for _ in range(2):
        with pytest.raises(OSError, match="no such name"):
            await resolver.addresses("nowhere.example")
    assert server.asked == 2


@pytest.mark.parametrize("answer", [(), ("not an address",), ("93.184.216.34", "")], ids=str)
async def test_an_answer_that_is_none_is_a_failure(answer: tuple[str, ...]) -> None:
    with pytest.raises(OSError, match="addresses"):
        await Resolver(Server(*answer), Moments()).addresses("a.example")


async def test_who_waits_shares_a_look_up_and_who_gives_up_harms_nobody() -> None:
    server = Server(str(PUBLIC))
    server.answering.clear()
    resolver = Resolver(server, Moments())
    waiting = [asyncio.create_task(resolver.addresses("a.example")) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    server.answering.set()
    assert await asyncio.gather(*waiting[1:]) == [(PUBLIC,)] * 4
    assert server.asked == 1
    assert waiting[0].cancelled()


async def test_a_name_that_never_answers_holds_up_no_other() -> None:
    resolver = Resolver(Server(str(PUBLIC)), Moments())
    stuck = asyncio.create_task(resolver.addresses("slow.example"))
    await asyncio.sleep(0)
    assert await resolver.addresses("quick.example") == (PUBLIC,)
    assert not stuck.done()
    resolver.close()
    with pytest.raises(asyncio.CancelledError):
        await stuck


async def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "EGRESS_ANSWERS_KEPT_MAX", 3)
    server = Server(str(PUBLIC))
    resolver = Resolver(server, Moments())
    for number in range(7):
        await resolver.addresses(f"{number}.example")
    await resolver.addresses("6.example")
    assert server.asked == 7, "the newest is kept"
    await resolver.addresses("0.example")
    assert server.asked == 8, "the oldest is not"


async def test_the_machines_own_resolver_knows_this_machine() -> None:
    lookup = SystemLookup()
    found = await lookup("localhost")
    assert found
    assert all(ip_address(text).is_loopback for text in found)
    lookup.close()


async def test_party_with_name_servers_that_never_answer_leaves_threads_to_the_others() -> None:
    server = Server(str(PUBLIC))
    resolver = Resolver(server, Moments())
    stuck = [
        asyncio.create_task(resolver.addresses(f"slow-{number}.tarpit-{number}.example", "tarpit"))
        for number in range(EGRESS_LOOKUPS_MAX)
    ]
    for _ in range(5):
        await asyncio.sleep(0)
    assert server.asked == EGRESS_LOOKUPS_OF_PARTY_MAX
    assert await resolver.addresses("quick.example", "another") == (PUBLIC,)
    resolver.close()
    await asyncio.gather(*stuck, return_exceptions=True)
    assert await resolver.addresses("quick.tarpit.example", "tarpit") == (PUBLIC,)


async def test_names_under_one_domain_share_the_places_of_a_party_without_a_name() -> None:
    server = Server(str(PUBLIC))
    resolver = Resolver(server, Moments())
    stuck = [asyncio.create_task(resolver.addresses(f"slow-{n}.tarpit.example")) for n in range(20)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert server.asked == EGRESS_LOOKUPS_OF_PARTY_MAX
    assert await resolver.addresses("quick.example") == (PUBLIC,)
    resolver.close()
    await asyncio.gather(*stuck, return_exceptions=True)


async def test_look_ups_of_a_party_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "EGRESS_LOOKUPS_WAITING_MAX", 10)
    resolver = Resolver(Server(str(PUBLIC)), Moments())
    stuck = [asyncio.create_task(resolver.addresses(f"slow-{n}.example", "tarpit")) for n in range(10)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(OSError, match="too many look-ups"):
        await resolver.addresses("one-more.example", "tarpit")
    resolver.close()
    await asyncio.gather(*stuck, return_exceptions=True)
