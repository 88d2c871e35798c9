"""Shares of places: which tenant gets the next one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from api.fairness.shares import HalfOfTheRest, Shares
from api.http.problems import Refusal


class Tenants:
    """Acquires places in ``shares`` and holds them until they are released."""

    def __init__(self, size: int, waiting: int) -> None:
        self.shares = Shares(size, HalfOfTheRest(size - 1), waiting=waiting, reserved=1)
        self.held: list[tuple[str | None, AsyncExitStack]] = []
        self.waiting: list[asyncio.Task[None]] = []

    async def ask(self, tenant: str | None, times: int = 1) -> None:
        """Request places and acquire those that are free."""
        self.waiting += [asyncio.create_task(self._hold(tenant)) for _ in range(times)]
        await self.settle()

    async def release(self, tenant: str | None) -> None:
        holder = next(each for each in self.held if each[0] == tenant)
        self.held.remove(holder)
        await holder[1].aclose()
        await self.settle()

    def holds(self, tenant: str | None) -> int:
        return sum(holder == tenant for holder, _ in self.held)

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def _hold(self, tenant: str | None) -> None:
        stack = AsyncExitStack()
        await stack.enter_async_context(self.shares.place(tenant))
        self.held.append((tenant, stack))


@asynccontextmanager
async def pool_of(size: int, waiting: int = 100) -> AsyncIterator[Tenants]:
    tenants = Tenants(size, waiting)
    yield tenants
    for task in tenants.waiting:
        task.cancel()
    await asyncio.gather(*tenants.waiting, return_exceptions=True)


async def test_single_tenant_gets_no_more_than_its_share() -> None:
    async with pool_of(10) as pool:
        await pool.ask("greedy", 20)
        assert pool.holds("greedy") == 4


async def test_each_further_tenant_gets_a_connection() -> None:
    async with pool_of(10) as pool:
        for number in range(5):
            await pool.ask(f"greedy-{number}", 20)
            assert pool.holds(f"greedy-{number}") >= 1
        assert len(pool.held) <= 9


async def test_one_connection_is_reserved_for_the_server() -> None:
    async with pool_of(10) as pool:
        for number in range(20):
            await pool.ask(f"greedy-{number}", 20)
        assert len(pool.held) == 9
        await pool.ask(None)
        assert pool.holds(None) == 1


async def test_free_connection_goes_to_the_tenant_that_holds_the_fewest() -> None:
    async with pool_of(3) as pool:
        await pool.ask("a", 5)
        await pool.ask("b", 5)
        await pool.ask("c", 5)
        assert (pool.holds("a"), pool.holds("b"), pool.holds("c")) == (1, 1, 0)
        await pool.release("a")
        assert (pool.holds("a"), pool.holds("b"), pool.holds("c")) == (0, 1, 1)
        await pool.release("b")
        assert (pool.holds("a"), pool.holds("b"), pool.holds("c")) == (1, 0, 1)


async def test_cancelled_caller_leaves_its_place_to_the_next() -> None:
    async with pool_of(2) as pool:
        await pool.ask("a", 3)
        pool.waiting[1].cancel()
        await pool.settle()
        await pool.release("a")
        assert pool.holds("a") == 1
        await pool.release("a")
        await pool.ask("b")
        assert pool.holds("b") == 1


async def test_callers_cancelled_while_a_place_becomes_free_leak_no_place() -> None:
    async with pool_of(2) as pool:
        await pool.ask("a", 5)
        for task in pool.waiting[1:4]:
            task.cancel()
        await pool.release("a")
        assert pool.holds("a") == 1
        await pool.release("a")
        await pool.ask("b")
        assert (pool.holds("a"), pool.holds("b")) == (0, 1)


async def test_queue_of_a_tenant_is_bounded() -> None:
    async with pool_of(2, waiting=2) as pool:
        await pool.ask("a", 3)
        with pytest.raises(Refusal, match="rate-limited"):
            async with pool.shares.place("a"):
                pass
        await pool.ask("b")
        assert len(pool.waiting) == 4


async def test_tenant_without_a_queue_is_refused_until_it_gives_a_place_back() -> None:
    async with pool_of(2, waiting=0) as pool:
        await pool.ask("a")
        with pytest.raises(Refusal, match="rate-limited"):
            async with pool.shares.place("a"):
                pass
        await pool.release("a")
        await pool.ask("a")
        assert pool.holds("a") == 1


class Resting:
    """One place, which rests after use."""

    def asked(self, _tenant: str) -> None:
        return

    def share(self, _tenant: str, _open: int, _holders: Collection[str]) -> int:
        return 1

    def rest(self, _tenant: str, _open: int, used_seconds: float) -> float:
        return 3 * used_seconds


@pytest.mark.virtual_time
async def test_place_rests_after_its_use() -> None:
    shares = Shares(2, Resting(), waiting=10)
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with shares.place("a") as use:
        await asyncio.sleep(1)
        use.seconds = 1.0
    async with shares.place("a"):
        assert loop.time() - began == pytest.approx(4)


@pytest.mark.virtual_time
async def test_request_that_waits_too_long_is_refused_and_leaves_the_queue() -> None:
    shares = Shares(2, Resting(), waiting=10, wait_seconds=3.0)
    loop = asyncio.get_running_loop()
    done: list[float] = []

    async def request(seconds: float) -> None:
        async with shares.place("a") as use:
            await asyncio.sleep(seconds)
            use.seconds = seconds
        done.append(loop.time())

    first = asyncio.create_task(request(0.5))  # with its rest, the place is taken for two seconds
    await asyncio.sleep(0)
    second = asyncio.create_task(request(10.0))
    await asyncio.sleep(0)
    with pytest.raises(Refusal, match="rate-limited"):
        await request(1.0)
    assert loop.time() == pytest.approx(3.0)
    await asyncio.gather(first, second)
    assert done == pytest.approx([0.5, 12.0])
