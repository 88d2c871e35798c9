"""Picking free TCP ports.

The system picks; a port can still be lost between the pick and its use, so whoever starts a server treats an
early exit as a reason to try again, not as a proof of anything.
"""

from __future__ import annotations

import socket


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """``count`` different TCP ports that nobody listens on at ``host`` right now."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for opened in sockets:
            opened.bind((host, 0))
        return [int(opened.getsockname()[1]) for opened in sockets]
    finally:
        for opened in sockets:
            opened.close()


def free_port(host: str = "127.0.0.1") -> int:
    """One TCP port that nobody listens on at ``host`` right now."""
    return free_ports(1, host)[0]


def can_connect(host: str, port: int, timeout_seconds: float = 0.2) -> bool:
    """Whether somebody accepts TCP connections at ``host:port``."""
    try:
        with socket.create_connection((host, port), timeout=timeout_seconds):
            return True
    except OSError:
        return False
