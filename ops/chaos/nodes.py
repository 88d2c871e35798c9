"""A Ray cluster of several nodes on one machine: nodes join, leave, and die with everything on them.

``ray start`` is what an operator of a cluster runs; each node here is one such command in a session of its
own. Nodes of one machine reach each other through Ray alone, as those of different machines do.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ops.chaos.processes import descendants, gone, send

START_SECONDS_MAX: Final = 60.0
START_ATTEMPTS: Final = 3
"""Ray gives a node up that has not begun after 30 s, which happens on a machine that is busy."""
END_SECONDS_MAX: Final = 20.0
POLL_SECONDS: Final = 0.05
PROCESSORS: Final = 2
STORE_BYTES: Final = 128 * 1024 * 1024

QUIET: Final = {
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_task_events_report_interval_ms": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_event_stats": "0",
}


class NodeError(Exception):
    """A node did not start. The message is one line."""


class RayNode:
    """One node: a process and all below it. ``leave`` and ``kill`` twice are harmless."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pids(self) -> list[int]:
        """The node's processes, its workers among them."""
        return descendants(self._process.pid)

    def kill(self) -> int:
        """End everything at once, as a power cut would; how many processes that were."""
        pids = self.pids
        killed = send(signal.SIGKILL, pids)
        self._wait(pids)
        return killed

    def leave(self) -> None:
        """End as an operator does who stops the machine."""
        pids = self.pids
        self._process.terminate()
        self._wait(pids)

    def _wait(self, pids: list[int]) -> None:
        deadline = time.monotonic() + END_SECONDS_MAX
        while any(not gone(pid) for pid in pids):
            self._process.poll()
            if time.monotonic() > deadline:
                send(signal.SIGKILL, pids)
            time.sleep(POLL_SECONDS)
        self._process.wait()


class RayCluster:
    """A context manager: a head that has processors of its own, and what joins it."""

    def __init__(self, folder: Path) -> None:
        """``folder``: for logs. Ray's own files lie where paths are short enough for its sockets."""
        self._folder = folder
        self._files = Path("/tmp") / f"sray-{os.getpid()}"
        self._nodes: list[RayNode] = []
        self.address = ""
        """What ``stanchion up --address`` takes."""
        self.environment: Final = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        """The variables with which the cluster can be joined."""

    def __enter__(self) -> Self:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        head = ("--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={self._files}")
        try:
            self._start("head", head)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def joining(self, **settings: str) -> dict[str, str]:
        """This process's variables, those that let a process join, and ``settings``."""
        return os.environ | self.environment | settings

    def join(self) -> RayNode:
        """One more node; returns when it is part of the cluster. Raises NodeError."""
        for _ in range(START_ATTEMPTS - 1):
            with suppress(NodeError):
                return self._join()
        return self._join()

    def _join(self) -> RayNode:
        return self._start(f"node-{len(self._nodes)}", (f"--address={self.address}",))

    def _start(self, name: str, arguments: tuple[str, ...]) -> RayNode:
        log = self._folder / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [
            str(Path(sys.executable).with_name("ray")), "start", *arguments, "--block",
            "--node-ip-address=127.0.0.1", f"--num-cpus={PROCESSORS}", f"--object-store-memory={STORE_BYTES}",
            "--min-worker-port=0", "--max-worker-port=0", "--disable-usage-stats", "--log-color=false",
        ]  # fmt: skip
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | QUIET | self.environment,
                start_new_session=True,
            )
        node = RayNode(process)
        self._nodes.append(node)
        deadline = time.monotonic() + START_SECONDS_MAX
        while "Ray runtime started" not in log.read_text("utf-8", "replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise NodeError(f"{name} did not start; see {log}")
            time.sleep(POLL_SECONDS)
        return node

    def _end(self) -> None:
        for node in reversed(self._nodes):
            node.kill()
        self._nodes.clear()
        shutil.rmtree(self._files, ignore_errors=True)
