"""Memory is limit_memory for whom it is to be limit_memory, and there again afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.memory import address_space, lift_limits, limit_memory

WANTS = """
import sys
for line in sys.stdin:
    try:
        bytearray(int(line))
    except MemoryError:
        print("nothing", flush=True)
    else:
        print("all", flush=True)
"""
SMALL, LARGE = 1 << 10, 64 << 20


class Wanting:
    """A process that wants memory when it is told to."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, "-c", WANTS], stdin=pipe, stdout=pipe, text=True)

    def gets(self, size: int) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{size}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@pytest.fixture
def wanting() -> Iterator[Wanting]:
    made = Wanting()
    assert made.gets(SMALL) == "all"
    yield made
    made.process.kill()
    made.process.communicate()


def test_no_more_than_the_slack(wanting: Wanting) -> None:
    with limit_memory([wanting.process.pid], LARGE // 2):
        assert wanting.gets(LARGE) == "nothing"
        assert wanting.gets(SMALL) == "all"
    assert wanting.gets(LARGE) == "all"
    with limit_memory([wanting.process.pid], 2 * LARGE):
        assert wanting.gets(LARGE) == "all"


def test_it_is_given_back_whatever_happens(wanting: Wanting) -> None:
    try:
        with limit_memory([wanting.process.pid], 0):
            assert wanting.gets(LARGE) == "nothing"
            raise RuntimeError
    except RuntimeError:
        pass
    assert wanting.gets(LARGE) == "all"


def test_who_is_no_more_cannot_be_limited(wanting: Wanting) -> None:
    pid = wanting.process.pid
    wanting.process.kill()
    wanting.process.wait()
    with pytest.raises(NotInjectedError), limit_memory([pid], 0):
        pass
    lift_limits([pid])
    with pytest.raises(ProcessLookupError):
        address_space(pid)
