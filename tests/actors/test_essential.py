"""A failed essential task ends its process; a cancelled or finished one does not."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from actors.essential import FAULTY_EXIT, start_essential

PROCESS = """
import asyncio
from actors.essential import start_essential

async def fail():
    raise KeyError("a value that must not be printed")

async def main():
    start_essential(fail(), "reading")
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_failed_task_ends_the_process(lost_tasks: list[str]) -> None:
    async def fail() -> None:
        raise KeyError

    await asyncio.gather(start_essential(fail(), "reading"), return_exceptions=True)
    assert lost_tasks == ["reading"]
    lost_tasks.clear()


async def test_cancelled_and_finished_tasks_do_not_end_the_process(lost_tasks: list[str]) -> None:
    finished = start_essential(asyncio.sleep(0), "finished")
    cancelled = start_essential(asyncio.sleep(60), "cancelled")
    await finished
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    assert lost_tasks == []


def test_a_real_process_exits_with_its_status() -> None:
    ended = subprocess.run([sys.executable, "-c", PROCESS], capture_output=True, text=True, check=False)
    assert ended.returncode == FAULTY_EXIT
