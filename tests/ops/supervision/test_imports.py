"""What the supervisor imports before it starts the embedded servers: time in which no server starts."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from ops.supervision.up import LATER_IMPORTS

_NOT_NEEDED: Final = ("aiohttp", "fastapi", "ray", *LATER_IMPORTS)


def test_servers_start_before_slow_imports() -> None:
    script = "import sys, ops.cli, ops.supervision.up; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert sorted(set(done.stdout.split()) & set(_NOT_NEEDED)) == []
