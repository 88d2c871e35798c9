"""One child server process: start it under the right identity, watch it, stop it.

``start`` waits until the server answers. ``stop`` is safe to call twice, and returns only when the process
has ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from ops.embedded import launch

Identity = Literal["same", "namespace", "nobody"]

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0
LOG_BYTES_MAX = 8 * 1024 * 1024
_POLL_SECONDS = 0.02


class ServerError(Exception):
    """An embedded server cannot be started or used. The message is one line."""


def launched(identity: Identity, death_signal: signal.Signals, command: Sequence[str | Path]) -> list[str]:
    """``command`` through the launcher, which takes ``identity`` and ends with this process."""
    prefix = [
        sys.executable,
        "-I",
        "-S",
        launch.__file__,
        identity,
        str(int(death_signal)),
        str(os.getpid()),
        "--",
    ]
    return [*prefix, *map(str, command)]


class ServerProcess:
    """A running child with its log file. Start it from a thread that lives as long as the server."""

    def __init__(
        self,
        command: list[str],
        *,
        log: Path,
        cwd: Path,
        environment: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
    ) -> None:
        """Start ``command`` (see ``launched``) in a session of its own; its output is appended to ``log``."""
        self.log = log
        _rotate(log)
        with log.open("ab") as output:
            self.log_offset = output.tell()
            self._process = subprocess.Popen(
                command,
                cwd=cwd,
                env=dict(os.environ if environment is None else environment),
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if stdin is not None and self._process.stdin is not None:
            with self._process.stdin as pipe:
                pipe.write(stdin)

    @property
    def pid(self) -> int:
        """The process id; the launcher becomes the server, so it is also the server's."""
        return self._process.pid

    def running(self) -> bool:
        """Whether the process exists."""
        return self._process.poll() is None

    def wait_ready(self, ready: Callable[[], bool]) -> bool:
        """Poll ``ready`` until it is true; False if the process ends. Raises ServerError after a timeout."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while not ready():
            if not self.running():
                return False
            if time.monotonic() > deadline:
                raise ServerError(f"not ready after {START_SECONDS_MAX:.0f} s; see {self.log}")
            time.sleep(_POLL_SECONDS)
        return True

    def stop(self, gentle: signal.Signals, forceful: signal.Signals = signal.SIGKILL) -> None:
        """Send ``gentle``, later ``forceful``, and wait until the process has ended."""
        for number in (gentle, forceful, signal.SIGKILL):
            if not self.running():
                return
            self._process.send_signal(number)
            try:
                self._process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                continue
        self._process.wait()

    def output(self) -> str:
        """The log that this process has written so far."""
        with self.log.open("rb") as written:
            written.seek(self.log_offset)
            return written.read().decode("utf-8", "replace")

    def last_line(self) -> str:
        """The last line of the log, for a one-line error."""
        lines = [line for line in self.output().splitlines() if line.strip()]
        return lines[-1].strip() if lines else "no output"


def _rotate(log: Path) -> None:
    """Keep at most one older log, so that an installation that runs for years does not fill the disk."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
        log.replace(log.with_name(log.name + ".1"))
