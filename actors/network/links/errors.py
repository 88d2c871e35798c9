"""Failures of ``links.toml``, and the words for failures of connections."""

from __future__ import annotations

import os
import socket
import ssl

from actors.settings import SettingsError


class LinksError(SettingsError):
    """The links cannot be used. The message is one line that names file, line and field, without secrets."""


def reason_of(failure: OSError) -> str:
    """Why a connection or a port cannot be opened, without addresses."""
    if isinstance(failure, ssl.SSLCertVerificationError):
        return f"certificate refused: {failure.verify_message}"
    if isinstance(failure, ssl.SSLError):
        return f"TLS failed: {(getattr(failure, 'reason', None) or 'unknown').replace('_', ' ').lower()}"
    if isinstance(failure, TimeoutError):
        return "no connection in time"
    if isinstance(failure, socket.gaierror):
        return "cannot open: unknown host name"
    problem = os.strerror(failure.errno) if failure.errno else type(failure).__name__
    return f"cannot open: {problem}"
