"""Memory limits apply to the chosen processes only, and are lifted afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.memory import address_space, lift_limits, limit_memory

ALLOCATE = """
import sys
for line in sys.stdin:
    try:
        bytearray(int(line))
    except MemoryError:
        print("refused", flush=True)
    else:
        print("all", flush=True)
"""
SMALL, LARGE = 1 << 10, 64 << 20


class Allocator:
    """A process that allocates memory on request."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, "-c", ALLOCATE], stdin=pipe, stdout=pipe, text=True)

    def gets(self, size: int) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{size}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@pytest.fixture
def allocator() -> Iterator[Allocator]:
    made = Allocator()
    assert made.gets(SMALL) == "all"
    yield made
    made.process.kill()
    made.process.communicate()


def test_a_limited_process_cannot_allocate_beyond_the_slack(allocator: Allocator) -> None:
    with limit_memory([allocator.process.pid], LARGE // 2):
        assert allocator.gets(LARGE) == "refused"
        assert allocator.gets(SMALL) == "all"
    assert allocator.gets(LARGE) == "all"
    with limit_memory([allocator.process.pid], 2 * LARGE):
        assert allocator.gets(LARGE) == "all"


def test_limits_are_lifted_after_an_exception(allocator: Allocator) -> None:
    try:
        with limit_memory([allocator.process.pid], 0):
            assert allocator.gets(LARGE) == "refused"
            raise RuntimeError
    except RuntimeError:
        pass
    assert allocator.gets(LARGE) == "all"


def test_an_ended_process_cannot_be_limited(allocator: Allocator) -> None:
    pid = allocator.process.pid
    allocator.process.kill()
    allocator.process.wait()
    with pytest.raises(NotInjectedError), limit_memory([pid], 0):
        pass
    lift_limits([pid])
    with pytest.raises(ProcessLookupError):
        address_space(pid)
