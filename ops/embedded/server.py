"""The lifecycle of every embedded server: start, revive, stop; each safe to call twice."""

from __future__ import annotations

import signal
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from ops.embedded.passwords import password_file
from ops.embedded.ports import free_port
from ops.embedded.process import START_SECONDS_MAX, ServerError, ServerProcess

HOST = "127.0.0.1"


class EmbeddedServer(ABC):
    """One server under ``<var>/<name>``. Not safe to share between threads; the caller holds the
    installation's lock."""

    name: ClassVar[str]
    """Used for the names of the folder, the log and the password file."""
    stop_signals: ClassVar[tuple[signal.Signals, signal.Signals]]
    """The signals for a gentle and a forceful stop."""
    too_early: ClassVar[tuple[str, ...]] = ("Address already in use",)
    """Log messages of a start that came too early: the previous process still holds the memory or the
    port."""

    def __init__(self, var_dir: Path) -> None:
        self.data_dir = var_dir / self.name
        self.log = var_dir / "log" / f"{self.name}.log"
        self._password_path = var_dir / "keys" / f"{self.name}.password"
        self._process: ServerProcess | None = None
        self.port = 0

    @property
    @abstractmethod
    def url(self) -> str:
        """The server's address with its password; known after the start, and unchanged by a restart."""

    @abstractmethod
    def _prepare(self) -> None:
        """Create and clean up what the server needs before it starts."""

    @abstractmethod
    def _spawn(self) -> ServerProcess:
        """Start the process."""

    @abstractmethod
    def _ready(self) -> bool:
        """Whether the server accepts work."""

    @property
    def password(self) -> str:
        """The server's password, generated on first use."""
        return password_file(self._password_path)

    @property
    def pid(self) -> int | None:
        """Process id of the server while it runs."""
        return self._process.pid if self._process is not None and self._process.running() else None

    def running(self) -> bool:
        """Whether the server process exists."""
        return self.pid is not None

    def start(self) -> str:
        """Start the server and wait until it accepts work; returns ``url``.

        Raises ServerError with the last line of the server's log when it does not start.
        """
        if self.running():
            return self.url
        self.port = self.port or free_port(HOST)
        deadline = time.monotonic() + START_SECONDS_MAX
        self._prepare()
        self._process = self._spawn()
        while not self._process.wait_ready(self._ready):
            words = self._process.output()
            if not any(known in words for known in self.too_early) or time.monotonic() > deadline:
                raise ServerError(f"the embedded {self.name} did not start: {self._process.last_line()}")
            time.sleep(0.1)
            self._process = self._spawn()
        return self.url

    def revive(self) -> bool:
        """Start the server again if it ended without ``stop``, and do not wait for it. Returns whether it was
        started."""
        if self._process is None or self._process.running():
            return False
        self._prepare()
        self._process = self._spawn()
        return True

    def stop(self) -> None:
        """Stop the server gently and wait until it has ended."""
        if self._process is not None:
            self._process.stop(*self.stop_signals)
            self._process = None
