"""Periodic tasks: intervals, tolerated failures, the end of the process on any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from actors.periodic import PeriodicTask
from tests.support.actors.shards.virtual_time import run


class Steps:
    """Notes when each step ran; ``outcome`` gives its result or raises its failure."""

    def __init__(self, outcome: Callable[[int], float | None] = lambda _: None) -> None:
        self.at: list[float] = []
        self._outcome = outcome

    async def step(self) -> float | None:
        self.at.append(asyncio.get_running_loop().time())
        return self._outcome(len(self.at))


def test_steps_run_at_the_interval_after_the_delay() -> None:
    steps = Steps()

    async def scenario() -> None:
        task = PeriodicTask("sweep", steps.step, 10.0, delay=3.0)
        task.start()
        task.start()
        await asyncio.sleep(30)
        await task.stop()
        await task.stop()
        await asyncio.sleep(30)

    run(scenario())
    assert steps.at == [3.0, 13.0, 23.0]


def test_step_can_choose_the_next_interval() -> None:
    steps = Steps(lambda number: 1.0 if number == 1 else None)

    async def scenario() -> None:
        task = PeriodicTask("sweep", steps.step, 10.0)
        task.start()
        await asyncio.sleep(20)
        await task.stop()

    run(scenario())
    assert steps.at == [0.0, 1.0, 11.0]


def test_stop_ends_a_task_whose_step_swallows_the_cancellation() -> None:
    ended: list[float] = []

    async def step() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        ended.append(asyncio.get_running_loop().time())

    async def scenario() -> None:
        task = PeriodicTask("sweep", step, 10.0)
        task.start()
        await asyncio.sleep(5)
        await task.stop()
        ended.append(asyncio.get_running_loop().time())

    run(scenario())
    assert ended == [5.0, 5.0]


def test_tolerated_failure_costs_one_step() -> None:
    def outcome(number: int) -> None:
        if number == 1:
            raise ConnectionError

    steps = Steps(outcome)

    async def scenario() -> None:
        task = PeriodicTask("sweep", steps.step, 10.0, tolerated=(ConnectionError,))
        task.start()
        await asyncio.sleep(15)
        await task.stop()

    run(scenario())
    assert steps.at == [0.0, 10.0]


def test_other_failure_ends_the_process(lost_tasks: list[str]) -> None:
    def outcome(_number: int) -> None:
        raise KeyError

    steps = Steps(outcome)

    async def scenario() -> None:
        PeriodicTask("sweep", steps.step, 10.0, tolerated=(ConnectionError,)).start()
        await asyncio.sleep(15)

    run(scenario())
    assert (steps.at, lost_tasks) == ([0.0], ["sweep"])
    lost_tasks.clear()
