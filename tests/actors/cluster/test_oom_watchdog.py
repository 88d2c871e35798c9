"""The out-of-memory watchdog, in processes with limited memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from actors.cluster.oom_watchdog import OUT_OF_MEMORY_EXIT

_WATCHED = """
import asyncio, resource, sys
from pathlib import Path
from actors.cluster.oom_watchdog import OomWatchdog

def limit(slack):
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + slack, resource.RLIM_INFINITY))

async def allocate_too_much():
    bytearray(1 << 40)

async def main():
    watchdog = OomWatchdog()
    limit(64 << 20)
    watchdog.start()
    EVENT
    await asyncio.sleep(60)

asyncio.run(main())
"""


def run(event: str) -> subprocess.CompletedProcess[str]:
    """Run a watched process in which ``event`` happens."""
    return subprocess.run(
        [sys.executable, "-c", _WATCHED.replace("EVENT", event)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "event",
    [
        "limit(1 << 20)",
        "asyncio.get_running_loop().call_soon(bytearray, 1 << 40)",
        "asyncio.create_task(allocate_too_much())",
    ],
)
def test_process_without_memory_exits_and_logs_the_reason(event: str) -> None:
    ended = run(event)
    assert ended.returncode == OUT_OF_MEMORY_EXIT, ended.stderr
    assert "memory_exhausted" in ended.stdout


def test_other_errors_do_not_end_the_process() -> None:
    ended = run("asyncio.get_running_loop().call_soon(int, 'x'); await asyncio.sleep(0.1); sys.exit(7)")
    assert ended.returncode == 7
    assert "ValueError" in ended.stderr
