"""Failures of connections have words without addresses."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest

from actors.network.links.errors import reason_of


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (
            ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('192.0.2.1', 9)"),
            "cannot open: Connection refused",
        ),
        (OSError(errno.EADDRINUSE, "192.0.2.1"), "cannot open: Address already in use"),
        (OSError("Multiple exceptions: 192.0.2.1"), "cannot open: OSError"),
        (socket.gaierror(-2, "processor.example"), "cannot open: unknown host name"),
        (TimeoutError(), "no connection in time"),
        (ssl.SSLError(1, "[SSL] 192.0.2.1"), "TLS failed: unknown"),
    ],
)
def test_words_of_failures(failure: OSError, words: str) -> None:
    assert reason_of(failure) == words
