"""``kill -9`` for the busiest shard host, which in the demo owns the only card."""

from __future__ import annotations

import os
import re
import signal
from typing import Final

import httpx2

from ops.demo.checks import DemoError

_FIGURE: Final = re.compile(r'^(stanchion_\w+)\{process="(host-[^"]+)"\} (\S+)$', re.MULTILINE)


def kill_the_owner(metrics_url: str) -> tuple[str, int]:
    """Kill it; returns its name and process id. Raises DemoError when no host is found."""
    figures: dict[str, dict[str, float]] = {}
    for metric, host, value in _FIGURE.findall(httpx2.get(metrics_url).text):
        figures.setdefault(host, {})[metric] = float(value)
    if not figures:
        raise DemoError(f"no shard host is listed at {metrics_url}")
    owner = max(figures, key=lambda host: figures[host]["stanchion_commands_total"])
    pid = int(figures[owner]["stanchion_process_id"])
    os.kill(pid, signal.SIGKILL)
    return owner, pid
