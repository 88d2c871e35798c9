"""The supervisor's side of the fork server (``fork_server``): its start, its end, and the command by which
the raylet uses it."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from engine.limits import FORK_SECONDS, FORK_SERVER_STOP_SECONDS

AVAILABLE: Final = sys.platform == "linux"
"""Sockets with names outside the file system, and the kernel's view of processes, are those of Linux."""
FIRST_JOB: Final = "01000000"
"""Ray's number for the supervisor's connection: the first one of each local Ray."""
BACKLOG: Final = 128
_CLIENT: Final = Path(__file__).with_name("fork_client.py")
_WORKERS: Final = "--python_worker_command="
"""The raylet's option for the command that starts a Python process."""


class ForkServer:
    """Several threads may use it. ``start`` and ``stop`` are safe to call twice. Without a running fork
    server each process imports its code itself."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._name = f"stanchion-fork-{secrets.token_hex(16)}"
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline = -1

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if self._process is not None and running else None

    def start(self) -> bool:
        """Start it, and do not wait until it has imported its modules; returns whether it did not run. The
        environment is that of ``environment.prepare``."""
        with self._lock:
            if not AVAILABLE or self.pid is not None:
                return False
            self._stop()
            self._start()
            return True

    def _start(self) -> None:
        self._lifeline, writer = os.pipe()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            try:
                listener.bind(f"\0{self._name}")
                listener.listen(BACKLOG)
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "actors.cluster.fork_server"],
                    stdin=listener.fileno(),
                    stdout=writer,
                    env=os.environ | {"RAY_JOB_ID": FIRST_JOB},
                    # A Ctrl-C at the terminal is for the supervisor.
                    start_new_session=True,
                )
            finally:
                os.close(writer)

    def stop(self) -> None:
        """End it. Its copies go on."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        process, self._process = self._process, None
        lifeline, self._lifeline = self._lifeline, -1
        if lifeline != -1:
            os.close(lifeline)
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(FORK_SERVER_STOP_SECONDS)
            process.kill()
            process.wait()

    def renew(self) -> None:
        """Start a fork server with the current code in place of this one."""
        with self._lock:
            self.stop()
            self.start()

    def command(self, command: list[str], folder: Path) -> list[str]:
        """The raylet's ``command``, changed so that it starts Python processes by this fork server. The
        client's script is copied to ``folder``."""
        if not AVAILABLE:
            return command
        script = shutil.copy(_CLIENT, folder)
        client = subprocess.list2cmdline(
            [sys.executable, "-I", "-S", str(script), self._name, str(FORK_SECONDS)]
        )
        return [
            f"{_WORKERS}{client} {part.removeprefix(_WORKERS)}" if part.startswith(_WORKERS) else part
            for part in command
        ]
