"""Blocking calls in threads: their results, time limits, and waiting until none runs."""

from __future__ import annotations

import threading

import pytest

from actors.cluster import daemon_thread as module
from actors.cluster.daemon_thread import in_daemon_thread, wait_idle


async def test_result_and_exception_reach_the_caller() -> None:
    assert await in_daemon_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await in_daemon_thread(divmod, 7, 0)
    await wait_idle(60)


async def test_call_that_outlasts_its_limit_is_still_waited_for() -> None:
    release = threading.Event()
    with pytest.raises(TimeoutError):
        await in_daemon_thread(release.wait, seconds=0.001)
    await wait_idle(0.001)
    running = [thread.name for thread in threading.enumerate() if thread.name == "daemon-wait"]
    assert running == ["daemon-wait"], "waiting has a limit, and the call runs on"
    release.set()
    await wait_idle(60)
    assert not module._running
