"""Chooses free TCP ports.

The ports lie above those of Ray's workers and below those that kernels give to outgoing connections, so no
client takes one before its server starts. Another server still can, so callers retry if a server exits early.
"""

from __future__ import annotations

import errno
import random
import socket
from contextlib import ExitStack
from typing import Final

FIRST: Final = 20_000
LAST: Final = 32_767


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """``count`` different TCP ports that are free at ``host``."""
    ports: list[int] = []
    with ExitStack() as held:
        while len(ports) < count:
            opened = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            port = random.randint(FIRST, LAST)
            try:
                opened.bind((host, port))
            except OSError as failure:
                if failure.errno != errno.EADDRINUSE:
                    raise
            else:
                ports.append(port)
    return ports


def free_port(host: str = "127.0.0.1") -> int:
    """One TCP port that is free at ``host``."""
    return free_ports(1, host)[0]


def can_connect(host: str, port: int, timeout_seconds: float = 0.2) -> bool:
    """Whether a server accepts TCP connections at ``host:port``."""
    try:
        with socket.create_connection((host, port), timeout=timeout_seconds):
            return True
    except OSError:
        return False
