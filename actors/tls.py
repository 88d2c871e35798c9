"""TLS of servers: a certificate from files that can change while the process runs, and a listener that counts
connections before their handshake.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

from actors.connections import Admission
from actors.settings import Settings, SettingsError
from engine.limits import TLS_HANDSHAKE_SECONDS, TLS_RELOAD_SECONDS, TLS_SHUTDOWN_SECONDS

ACCEPT_RETRY_SECONDS: Final = 0.5
"""Pause after a failed ``accept``: the process has no descriptor left."""

_log = structlog.get_logger("tls")

_Version = tuple[tuple[int, int, int], ...]


class ReloadedContext:
    """A TLS context built from files, which is built again when they change.

    Replaced files take effect for new connections within ``reload_seconds``; open connections keep their
    session. If the new files cannot be used, the previous context stays in use and the failure is logged.
    """

    def __init__(
        self,
        files: Sequence[Path],
        build: Callable[[], ssl.SSLContext],
        *,
        reload_seconds: float = TLS_RELOAD_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises ``OSError`` (or its subclass ``ssl.SSLError``) when the files cannot be used."""
        self._files = tuple(files)
        self._build = build
        self._reload_seconds = reload_seconds
        self._clock = clock
        self._version = self._versions()
        self._context = build()
        self._checked_at = clock()

    def context(self) -> ssl.SSLContext:
        """The context for a new connection."""
        now = self._clock()
        if now - self._checked_at >= self._reload_seconds:
            self._checked_at = now
            self._reload()
        return self._context

    def _reload(self) -> None:
        try:
            version = self._versions()
            if version == self._version:
                return
            self._context = self._build()
        except OSError as failure:
            # Perhaps only some of the files are replaced yet: the next check tries again.
            _log.error("certificate_not_reloaded", error=type(failure).__name__)
            return
        self._version = version
        _log.info("certificate_reloaded")

    def _versions(self) -> _Version:
        found = (path.stat() for path in self._files)
        return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in found)


class ServerTls(ReloadedContext):
    """TLS 1.2 or newer of an HTTP server, with the certificate chain and the key of two PEM files."""

    def __init__(
        self,
        certificate: Path,
        key: Path,
        *,
        reload_seconds: float = TLS_RELOAD_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises ``OSError`` (or its subclass ``ssl.SSLError``) when the files cannot be used."""
        build = partial(_context, certificate, key)
        super().__init__((certificate, key), build, reload_seconds=reload_seconds, clock=clock)

    @classmethod
    def from_settings(cls, settings: Settings) -> ServerTls | None:
        """TLS of the API and the vision host, or ``None`` for plain HTTP. Raises ``SettingsError``."""
        return cls._of_files(settings.tls_cert_file, settings.tls_key_file, "STANCHION_TLS")

    @classmethod
    def of_metrics(cls, settings: Settings) -> ServerTls | None:
        """TLS of the metrics port, or ``None`` for plain HTTP. Raises ``SettingsError``."""
        files = settings.metrics_tls_cert_file, settings.metrics_tls_key_file
        return cls._of_files(*files, "STANCHION_METRICS_TLS")

    @classmethod
    def _of_files(cls, certificate: Path | None, key: Path | None, prefix: str) -> ServerTls | None:
        if certificate is None or key is None:
            return None
        names = f"{prefix}_CERT_FILE, {prefix}_KEY_FILE"
        try:
            return cls(certificate, key)
        except ssl.SSLError as failure:
            raise SettingsError(
                f"{names}: the files must hold a certificate chain and its unencrypted key in PEM"
                f" ({fault_of(failure)})"
            ) from None
        except OSError as failure:
            raise SettingsError(f"{names}: cannot be read ({failure.strerror})") from None


def load_certificate(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Have ``context`` present the chain of ``certificate``. Raises ``OSError``, also for an encrypted
    key."""
    # For an encrypted key, OpenSSL would prompt at the terminal.
    context.load_cert_chain(certificate, key, password=_no_password)


def fault_of(failure: ssl.SSLError) -> str:
    """The reason that OpenSSL gives, in words."""
    return (failure.reason or "").replace("_", " ").lower() or "not PEM"


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    load_certificate(context, certificate, key)
    return context


def _no_password() -> bytes:
    raise ssl.SSLError(1, "the key is encrypted")


class AdmissionTable(Protocol):
    """Admits connections before their handshake (``actors.connections.ConnectionTable``)."""

    def admit(self, peer: str | None) -> Admission | None:
        """Admit a connection from the address ``peer``; ``None`` refuses it."""


class TlsListener:
    """Accepts on ``listener`` and gives each connection, after its handshake, to a protocol of ``factory``.

    ``factory`` takes the connection's admission. An ``asyncio.Server`` creates protocols only after the
    handshake, so it would not count connections in handshake. The interface is the part of
    ``asyncio.Server`` that servers use to stop.
    """

    def __init__(
        self,
        listener: socket.socket,
        factory: Callable[[Admission], asyncio.Protocol],
        tls: ReloadedContext,
        table: AdmissionTable,
        *,
        handshake_seconds: float = TLS_HANDSHAKE_SECONDS,
    ) -> None:
        self._listener = listener
        self._factory = factory
        self._tls = tls
        self._table = table
        self._handshake_seconds = handshake_seconds
        self._handshakes: set[asyncio.Task[None]] = set()
        listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept())

    def close(self) -> None:
        """Stop accepting and cut open handshakes; established connections stay. Safe to call twice."""
        self._accepting.cancel()
        for task in self._handshakes:
            task.cancel()

    async def wait_closed(self) -> None:
        """After ``close``, wait until accepting and all handshakes have ended."""
        await asyncio.gather(self._accepting, *self._handshakes, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(self._listener)
            except OSError:
                if self._listener.fileno() < 0:
                    return
                await asyncio.sleep(ACCEPT_RETRY_SECONDS)
                continue
            admission = self._table.admit(address[0])
            if admission is None:
                connection.close()
                continue
            task = asyncio.create_task(self._shake_hands(connection, admission))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, connection: socket.socket, admission: Admission) -> None:
        options: dict[str, Any] = {
            "ssl": self._tls.context(),
            "ssl_handshake_timeout": self._handshake_seconds,
            "ssl_shutdown_timeout": TLS_SHUTDOWN_SECONDS,
        }
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._factory(admission), connection, **options
            )
        except OSError:
            # Not TLS, no common version, too slow, or disconnected.
            admission.end()
            connection.close()
        except asyncio.CancelledError:
            admission.end()
            connection.close()
            raise
