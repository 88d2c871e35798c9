"""Whether a process stands still, asked of real ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from actors.cluster.standstill import children, end, of, stands_still, whereabouts

SECONDS_MAX = 60.0
_TELL = """
import sys
from actors.cluster.standstill import whereabouts
print(whereabouts(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def child() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that has said where it is."""
    with subprocess.Popen(
        [sys.executable, "-c", _TELL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.kill()


def seen(where: str, still: bool) -> bool:
    deadline = time.monotonic() + SECONDS_MAX
    while stands_still(where) != still and time.monotonic() < deadline:
        time.sleep(0.005)
    return stands_still(where) == still


def test_a_stopped_process_is_seen_until_it_goes_on(child: tuple[subprocess.Popen[str], str]) -> None:
    process, where = child
    assert not stands_still(where)
    process.send_signal(signal.SIGSTOP)
    assert seen(where, True)
    process.send_signal(signal.SIGCONT)
    assert seen(where, False)


def test_an_ended_process_is_seen_buried_or_not(child: tuple[subprocess.Popen[str], str]) -> None:
    process, where = child
    assert not stands_still(where)
    process.kill()
    assert seen(where, True)
    process.wait()
    assert stands_still(where)


def test_a_number_that_was_given_away_is_not_the_process(child: tuple[subprocess.Popen[str], str]) -> None:
    place, _, started = child[1].rpartition("/")
    assert stands_still(f"{place}/{int(started) + 1}")


def test_of_strangers_nothing_is_claimed(child: tuple[subprocess.Popen[str], str]) -> None:
    process, where = child
    process.send_signal(signal.SIGSTOP)
    assert seen(where, True)
    assert not stands_still(f"another-kernel/{where.partition('/')[2]}")
    assert not stands_still("")


def test_it_knows_itself() -> None:
    assert whereabouts().split("/")[-2] == str(os.getpid())
    assert not stands_still(whereabouts())


def test_stopped_process_is_killed(child: tuple[subprocess.Popen[str], str]) -> None:
    process, where = child
    process.send_signal(signal.SIGSTOP)
    assert seen(where, True)
    assert end(where)
    assert process.wait(SECONDS_MAX) == -signal.SIGKILL
    assert end(where), "it has ended"


def test_only_the_process_that_was_meant_is_killed(child: tuple[subprocess.Popen[str], str]) -> None:
    process, where = child
    place, _, started = where.rpartition("/")
    assert end(f"{place}/{int(started) + 1}")
    assert not end(f"another-kernel/{where.partition('/')[2]}")
    assert not end("")
    assert process.poll() is None


def test_children_are_found_by_their_whereabouts(child: tuple[subprocess.Popen[str], str]) -> None:
    process, where = child
    assert where in children(os.getpid())
    assert of(process.pid) == where
    assert children(process.pid) == []
