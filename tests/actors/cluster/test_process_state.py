"""Process identities, states and kills, on real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from actors.cluster.process_state import (
    KernelState,
    child_pids,
    identity_of,
    is_halted,
    kill_process,
    own_identity,
)

SECONDS_MAX = 60.0
_PRINT_IDENTITY = """
import sys
from actors.cluster.process_state import own_identity
print(own_identity(), flush=True)
sys.stdin.read()
"""
Child = tuple[subprocess.Popen[str], str]
"""A process and its identity."""


@pytest.fixture
def child() -> Iterator[Child]:
    with subprocess.Popen(
        [sys.executable, "-c", _PRINT_IDENTITY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.kill()


def becomes(identity: str, halted: bool) -> bool:
    deadline = time.monotonic() + SECONDS_MAX
    while is_halted(identity) != halted and time.monotonic() < deadline:
        time.sleep(0.005)
    return is_halted(identity) == halted


def test_stopped_process_is_halted_until_it_continues(child: Child) -> None:
    process, identity = child
    assert not is_halted(identity)
    process.send_signal(signal.SIGSTOP)
    assert becomes(identity, True)
    process.send_signal(signal.SIGCONT)
    assert becomes(identity, False)


def test_ended_process_is_halted_before_and_after_its_parent_reaps_it(child: Child) -> None:
    process, identity = child
    assert not is_halted(identity)
    process.kill()
    assert becomes(identity, True)
    process.wait()
    assert is_halted(identity)


def test_reused_pid_is_another_process(child: Child) -> None:
    rest, _, started = child[1].rpartition("/")
    assert is_halted(f"{rest}/{int(started) + 1}")


def test_process_of_another_machine_is_never_halted(child: Child) -> None:
    process, identity = child
    process.send_signal(signal.SIGSTOP)
    assert becomes(identity, True)
    assert not is_halted(f"another-kernel/{identity.partition('/')[2]}")
    assert not is_halted("")


def test_open_state_shows_the_stop_and_the_end_of_its_process(child: Child) -> None:
    process, identity = child
    with closing(KernelState(identity)) as state:
        assert not state.is_halted()
        process.send_signal(signal.SIGSTOP)
        assert becomes(identity, True)
        assert state.is_halted()
        process.send_signal(signal.SIGCONT)
        assert becomes(identity, False)
        assert not state.is_halted()
        process.kill()
        assert becomes(identity, True)
        assert state.is_halted(), "before its parent reaps it"
        process.wait()
        assert state.is_halted()
    assert state.is_halted(), "also when it is closed"


def test_open_state_keeps_to_its_identity(child: Child) -> None:
    rest, _, started = child[1].rpartition("/")
    for identity, halted in (
        (f"{rest}/{int(started) + 1}", True),
        (f"another-kernel/{child[1].partition('/')[2]}", False),
        ("", False),
    ):
        with closing(KernelState(identity)) as state:
            assert state.is_halted() is halted


def test_own_identity_contains_the_pid() -> None:
    assert own_identity().split("/")[-2] == str(os.getpid())
    assert not is_halted(own_identity())


def test_stopped_process_is_killed(child: Child) -> None:
    process, identity = child
    process.send_signal(signal.SIGSTOP)
    assert becomes(identity, True)
    assert kill_process(identity)
    assert process.wait(SECONDS_MAX) == -signal.SIGKILL
    assert kill_process(identity), "an ended process counts as killed"


def test_kill_spares_a_process_with_a_reused_pid_or_of_another_machine(child: Child) -> None:
    process, identity = child
    rest, _, started = identity.rpartition("/")
    assert kill_process(f"{rest}/{int(started) + 1}")
    assert not kill_process(f"another-kernel/{identity.partition('/')[2]}")
    assert not kill_process("")
    assert process.poll() is None


def test_children_are_found(child: Child) -> None:
    process, identity = child
    assert process.pid in child_pids(os.getpid())
    assert process.pid in child_pids(os.getpid(), of_main_thread=True)
    assert identity_of(process.pid) == identity
    assert child_pids(process.pid) == []
