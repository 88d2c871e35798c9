"""Which tenants an API server slows down, and how much."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
import pytest

from api.fairness.request_policy import Pace, RequestPolicy
from api.fairness.shares import Shares
from tests.support.actors.shards.virtual_time import VirtualLoop

pytestmark = pytest.mark.virtual_time

FEW: Final = 4
PACE: Final = Pace(
    places=32,
    few=FEW,
    places_min=2,
    company_seconds=10.0,
    turn_seconds=0.002,
    window_seconds=0.2,
    capacity_min=0.25,
    rest_seconds_max=5.0,
    rise=0.5,
)
MANY: Final = FEW + 1


async def windows(policy: RequestPolicy, number: int, turn_seconds: float = 0.0) -> None:
    """Windows with one request each, of the tenants ``a`` and ``b`` in turn. A turn of the loop takes
    ``turn_seconds``."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    for turn in range(number):
        await asyncio.sleep(1.5 * PACE.window_seconds)
        policy.asked("ab"[turn % 2])
        loop.advance(turn_seconds)
        await asyncio.sleep(0)


async def test_tenant_without_company_has_all_places() -> None:
    policy = RequestPolicy(PACE)
    for _ in range(100):
        policy.asked("a")
    assert policy.share("a", MANY, ["a"]) == PACE.places


async def test_slow_turns_halve_the_capacity_of_busy_tenants_down_to_the_least() -> None:
    policy = RequestPolicy(PACE)
    found = []
    policy.asked("b")
    for _ in range(6):
        await windows(policy, 1, turn_seconds=0.01)
        found.append(policy.capacity)
    assert found == [2, 1, 0.5, 0.25, 0.25, 0.25]


async def test_capacity_rises_in_windows_without_slow_turns() -> None:
    policy = RequestPolicy(PACE)
    policy.asked("b")
    await windows(policy, 4, turn_seconds=0.01)
    await windows(policy, 3)
    assert policy.capacity == 0.25 + 3 * PACE.rise
    await windows(policy, 20)
    assert policy.capacity == FEW


@pytest.mark.parametrize(("open_requests", "share"), [(1, 32), (FEW, 32), (MANY, 2), (1_000, 2)])
async def test_only_tenants_with_many_open_requests_are_slowed_down(open_requests: int, share: int) -> None:
    policy = RequestPolicy(PACE)
    policy.asked("b")
    await windows(policy, 1, turn_seconds=0.01)
    assert policy.share("a", open_requests, ["a", "b"]) == share


async def test_tenant_has_all_places_again_when_the_other_one_has_stopped() -> None:
    policy = RequestPolicy(PACE)
    policy.asked("b")
    await windows(policy, 1, turn_seconds=0.01)
    await asyncio.sleep(PACE.company_seconds)
    policy.asked("a")
    assert policy.share("a", MANY, ["a"]) == PACE.places


@pytest.mark.parametrize(
    ("slow_windows", "capacity", "places"), [(0, FEW, FEW), (1, 2, 2), (2, 1, 2), (3, 0.5, 2), (4, 0.25, 2)]
)
async def test_places_of_a_busy_tenant_rest_so_that_its_use_keeps_to_the_capacity(
    slow_windows: int, capacity: float, places: int
) -> None:
    """Each request uses the server for a second."""
    policy = RequestPolicy(msgspec.structs.replace(PACE, rise=0.0, rest_seconds_max=60.0))
    policy.asked("b")
    await windows(policy, slow_windows, turn_seconds=0.01)
    assert policy.share("a", MANY, ["a"]) == places
    done = await _handled(policy, 40, used_seconds=1.0)
    # The first ones are handled at once, because the tenant is not busy yet.
    later = done[2 * FEW :]
    assert (len(later) - places) / (later[-1] - later[0]) == pytest.approx(capacity, rel=0.2)


async def test_requests_that_only_wait_do_not_rest() -> None:
    policy = RequestPolicy(msgspec.structs.replace(PACE, rise=0.0))
    policy.asked("b")
    await windows(policy, 4, turn_seconds=0.01)
    assert policy.capacity == PACE.capacity_min
    done = await _handled(policy, 40, used_seconds=0.0)
    assert done[-1] <= 40 / PACE.places_min


async def _handled(policy: RequestPolicy, number: int, used_seconds: float) -> list[float]:
    """When each of some requests of one tenant, which take a second each, was done: seconds since they were
    sent."""
    shares = Shares(100, policy, waiting=number)
    loop = asyncio.get_running_loop()
    began = loop.time()
    done: list[float] = []
    company = asyncio.create_task(_company(policy))

    async def request() -> None:
        async with shares.place("a") as use:
            await asyncio.sleep(1)
            use.seconds += used_seconds
        done.append(loop.time() - began)

    await asyncio.gather(*(request() for _ in range(number)))
    company.cancel()
    return done


async def test_rest_after_a_long_request_is_bounded() -> None:
    policy = RequestPolicy(PACE)
    policy.asked("b")
    await windows(policy, 4, turn_seconds=0.01)
    assert policy.rest("a", MANY, 0.5) == 3.5
    assert policy.rest("a", MANY, 60.0) == PACE.rest_seconds_max
    assert policy.rest("a", FEW, 60.0) == 0


async def _company(policy: RequestPolicy) -> None:
    while True:
        policy.asked("b")
        await asyncio.sleep(1)
