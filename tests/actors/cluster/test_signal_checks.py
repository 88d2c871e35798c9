"""A process whose main thread waits as Ray's does: at an epoll instance with a timer. No Ray."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from actors.cluster import signal_checks
from actors.cluster.signal_checks import main_timer, stop_signal_checks

KERNEL_SHOWS_CALLS = sys.platform == "linux"
WAIT_SECONDS = 60.0
WAITING = """
import asyncio, ctypes, os, select, signal, sys, threading
from actors.cluster.signal_checks import stop_signal_checks

signal.signal(signal.SIGTERM, lambda *_: None)
timer = ctypes.CDLL(None).timerfd_create(1, 0)
every_10_ms = (ctypes.c_long * 4)(0, 10_000_000, 0, 10_000_000)
ctypes.CDLL(None).timerfd_settime(timer, 0, every_10_ms, None)
called, calls = os.pipe()
waits = select.epoll()
waits.register(timer, select.EPOLLIN)
waits.register(called, select.EPOLLIN)

def stop_and_call():
    print(asyncio.run(stop_signal_checks()), flush=True)
    os.write(calls, b"x")

# Once more than the timer needs, so that a timer which is still there shows first.
threading.Timer(0.1, stop_and_call).start()
while (called, select.EPOLLIN) not in (events := waits.poll()):
    os.read(timer, 8)
print("called", timer in dict(events), flush=True)
os.read(called, 1)
print(waits.poll(0.5), flush=True)
waits.poll()
"""


def test_main_thread_wakes_for_calls_only_and_sigterm_ends_the_process() -> None:
    """Where the kernel shows a thread's system call; elsewhere there is no timer to find."""
    if not KERNEL_SHOWS_CALLS:
        assert main_timer() is None
        return
    with subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline().strip() for _ in range(3)]
        process.send_signal(signal.SIGTERM)
        status = process.wait(WAIT_SECONDS)
    assert said == ["True", "called False", "[]"]
    assert status == -signal.SIGTERM


def test_thread_that_does_not_wait_is_left_alone() -> None:
    # The main thread of this test executes it.
    assert main_timer() is None


@pytest.mark.virtual_time
async def test_process_that_the_kernel_does_not_show_keeps_its_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = []
    monkeypatch.setattr(signal_checks, "_default_sigterm", lambda: stopped.append(True))
    async with asyncio.timeout(WAIT_SECONDS):
        assert not await stop_signal_checks(tmp_path)
    assert not stopped
