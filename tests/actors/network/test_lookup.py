"""The look-up caches existing values up to its capacity and shares one fetch between callers."""

from __future__ import annotations

import asyncio

import pytest

from actors.network.lookup import Lookup
from engine.limits import LOOKUP_BATCH_MAX


class Source:
    def __init__(self) -> None:
        self.fetched: list[list[int]] = []
        self.error: Exception | None = None

    async def fetch(self, keys: list[int]) -> dict[int, str]:
        self.fetched.append(keys)
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return {key: f"value {key}" for key in keys if key >= 0}


async def test_found_value_is_cached() -> None:
    source = Source()
    lookup = Lookup(source.fetch, 10)
    assert lookup.cached(1) is None
    assert await lookup.find(1) == "value 1"
    assert lookup.cached(1) == "value 1"
    assert await lookup.find(1) == "value 1"
    assert source.fetched == [[1]]


async def test_missing_key_is_not_cached() -> None:
    source = Source()
    lookup = Lookup(source.fetch, 10)
    assert await lookup.find(-1) is None
    assert await lookup.find(-1) is None
    assert source.fetched == [[-1], [-1]]
    assert len(lookup) == 0


async def test_concurrent_callers_share_one_fetch() -> None:
    source = Source()
    lookup = Lookup(source.fetch, 10)
    first = asyncio.create_task(lookup.find(1))
    await asyncio.sleep(0)
    found = await asyncio.gather(first, lookup.find(1), lookup.find_all([2, 1, 3]), lookup.find(2))
    assert list(found) == ["value 1", "value 1", ["value 2", "value 1", "value 3"], "value 2"]
    assert sorted(key for fetched in source.fetched for key in fetched) == [1, 2, 3]


async def test_batches_and_cache_are_bounded() -> None:
    source = Source()
    lookup = Lookup(source.fetch, 100)
    keys = range(LOOKUP_BATCH_MAX + 10)
    assert await lookup.find_all(keys) == [f"value {key}" for key in keys]
    assert [len(fetched) for fetched in source.fetched] == [LOOKUP_BATCH_MAX, 10]
    assert len(lookup) == 100
    assert lookup.cached(0) is None


async def test_least_recently_used_value_is_evicted() -> None:
    lookup = Lookup(Source().fetch, 2)
    await lookup.find_all([1, 2])
    lookup.cached(1)
    await lookup.find(3)
    assert (lookup.cached(1), lookup.cached(2), lookup.cached(3)) == ("value 1", None, "value 3")


async def test_fetch_error_reaches_all_callers_and_is_not_cached() -> None:
    source = Source()
    lookup = Lookup(source.fetch, 10)
    source.error = ValueError()
    results = await asyncio.gather(
        lookup.find(1), lookup.find(1), lookup.find_all([1, 2]), return_exceptions=True
    )
    assert [type(result) for result in results] == [ValueError] * 3
    source.error = None
    assert await lookup.find(1) == "value 1"


async def test_cancelled_caller_does_not_affect_the_others() -> None:
    lookup = Lookup(Source().fetch, 10)
    leaving = asyncio.create_task(lookup.find(1))
    staying = asyncio.create_task(lookup.find(1))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == "value 1"
    with pytest.raises(asyncio.CancelledError):
        await leaving
