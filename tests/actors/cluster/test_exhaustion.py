"""A process whose memory may not grow any more ends, and says why; one with memory goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest

from actors.cluster.exhaustion import EXHAUSTED_EXIT

LIVE = """
import asyncio, resource, sys
from pathlib import Path
from actors.cluster.exhaustion import Exhaustion

def limit(slack):
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + slack, resource.RLIM_INFINITY))

async def greedy():
    bytearray(1 << 40)

async def main():
    exhaustion = Exhaustion()
    limit(64 << 20)
    exhaustion.start()
    HAPPENS
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "happens",
    [
        "limit(1 << 20)",
        "asyncio.get_running_loop().call_soon(bytearray, 1 << 40)",
        "asyncio.create_task(greedy())",
    ],
)
def test_without_memory_it_ends(happens: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LIVE.replace("HAPPENS", happens)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == EXHAUSTED_EXIT, ended.stderr
    assert "memory_exhausted" in ended.stdout


def test_what_others_do_wrong_does_not_end_it() -> None:
    happens = "asyncio.get_running_loop().call_soon(int, 'x'); await asyncio.sleep(0.1); sys.exit(7)"
    ended = subprocess.run(
        [sys.executable, "-c", LIVE.replace("HAPPENS", happens)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 7
    assert "ValueError" in ended.stderr
