"""The embedded Redis: started, killed and recovered."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError
from redis.retry import Retry

from ops.embedded.redis import EmbeddedRedis
from tests.support.ops.waiting import gone, wait_until

HOLD_A_SERVER = """
import sys
from pathlib import Path
from ops.embedded.redis import EmbeddedRedis
server = EmbeddedRedis(Path(sys.argv[1]))
print(server.start(), server.pid, flush=True)
sys.stdin.read()
"""


async def test_data_survive_a_stop_and_a_killed_server_can_be_started(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path)
    url = server.start()
    with Redis.from_url(url) as client:
        client.set("kept", "yes")
    pid = server.pid
    server.stop()
    server.stop()
    assert pid is not None
    assert gone(pid)
    assert server.start() == url
    with Redis.from_url(url) as client:
        assert client.get("kept") == b"yes"
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    await wait_until(lambda: not server.running())
    assert server.start() == url
    server.stop()


def test_it_needs_its_password_and_hides_it(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path)
    url = server.start()
    try:
        with Redis.from_url(url) as client:
            password = str(client.connection_pool.connection_kwargs["password"])
            port = int(client.connection_pool.connection_kwargs["port"])
        with Redis(port=port, retry=Retry(NoBackoff(), 0)) as stranger, pytest.raises(AuthenticationError):
            stranger.ping()
        assert password.encode() not in Path(f"/proc/{server.pid}/cmdline").read_bytes()
        assert password not in server.log.read_text()
    finally:
        server.stop()


async def test_no_orphan_when_the_starter_is_killed(tmp_path: Path) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", HOLD_A_SERVER, str(tmp_path)],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with starter:
        assert starter.stdout is not None
        _url, pid = starter.stdout.readline().decode().split()
        assert not gone(int(pid))
        starter.kill()
    await wait_until(lambda: gone(int(pid)))
