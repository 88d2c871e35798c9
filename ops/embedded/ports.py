"""Chooses free TCP ports.

The kernel chooses; another process can still take the port before it is used, so callers retry if a server
exits early.
"""

from __future__ import annotations

import socket


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """``count`` different TCP ports that are free at ``host``."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for opened in sockets:
            opened.bind((host, 0))
        return [int(opened.getsockname()[1]) for opened in sockets]
    finally:
        for opened in sockets:
            opened.close()


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
