"""A measurement that is stopped stops what it has started, and says so in one line."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from loadtests.harness.stopping import run_until_stopped

PROGRAM = """
import asyncio
from loadtests.harness.stopping import run_until_stopped, stoppable

async def measure():
    try:
        print("started", flush=True)
        await asyncio.Event().wait()
    finally:
        print("stopped its children", flush=True)

with stoppable("name"):
    run_until_stopped(measure())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_measurement_ends_in_order(number: signal.Signals) -> None:
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(number)
        output, errors = process.communicate()
    assert output == "stopped its children\n"
    assert errors == "name: interrupted; everything it had started is stopped\n"
    assert process.returncode == 1


def test_result_is_returned() -> None:
    async def measure() -> int:
        return 7

    assert run_until_stopped(measure()) == 7
