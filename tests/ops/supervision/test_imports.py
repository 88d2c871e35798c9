"""What the supervisor imports before it starts the embedded servers: time in which no server starts."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from engine.limits import ROLE_CHECK_SECONDS
from ops.supervision.up import LATER_IMPORTS, RESTART_POLL_SECONDS

_NOT_NEEDED: Final = ("aiohttp", "fastapi", "ray", *LATER_IMPORTS)


def test_servers_start_before_slow_imports() -> None:
    script = "import sys, ops.cli, ops.supervision.up; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert sorted(set(done.stdout.split()) & set(_NOT_NEEDED)) == []


def test_servers_are_checked_at_the_wake_ups_for_processes() -> None:
    assert (
        pytest.approx(round(RESTART_POLL_SECONDS / ROLE_CHECK_SECONDS))
        == RESTART_POLL_SECONDS / ROLE_CHECK_SECONDS
    )
