"""Items that are not done in time expire once, in order; items that are done never expire."""

from __future__ import annotations

from actors.network.deadlines import Deadlines
from tests.support.actors.network.support import until
from tests.support.steady_loop import advance


async def test_only_open_items_expire() -> None:
    expired: list[int] = []
    deadlines = Deadlines(20.0, expired.append)
    for item in range(6):
        deadlines.add(item)
    first, second, repeated = (deadlines.done(item) for item in (0, 3, 3))
    assert first is not None
    assert second is not None
    assert 0 <= second <= first < 20.0
    assert repeated is None
    assert 3 not in deadlines
    assert 4 in deadlines
    advance(20.0)
    await until(lambda: not len(deadlines))
    assert expired == [1, 2, 4, 5]
    assert deadlines.done(1) is None


async def test_item_done_after_its_deadline_has_expired() -> None:
    """Also after a pause of the process, before the timer has fired."""
    expired: list[int] = []
    deadlines = Deadlines(10.0, expired.append)
    deadlines.add(1)
    advance(10.1)
    assert expired == []
    assert deadlines.done(1) is None
    assert expired == [1]
    assert len(deadlines) == 0


async def test_timer_restarts_for_new_items() -> None:
    expired: list[int] = []
    deadlines = Deadlines(0.01, expired.append)
    for item in range(3):
        deadlines.add(item)
        await until(lambda: not len(deadlines))
    assert expired == [0, 1, 2]


async def test_expire_may_add_items() -> None:
    expired: list[int] = []

    def expire(item: int) -> None:
        expired.append(item)
        if item < 3:
            deadlines.add(item + 1)

    deadlines: Deadlines[int] = Deadlines(0.01, expire)
    deadlines.add(0)
    await until(lambda: expired == [0, 1, 2, 3])


async def test_stop_drops_all_items() -> None:
    deadlines: Deadlines[str] = Deadlines(0.0, lambda item: None)
    deadlines.add("x")
    deadlines.stop()
    deadlines.stop()
    assert len(deadlines) == 0
