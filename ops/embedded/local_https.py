"""HTTPS on this machine: the certificate authority that a local installation trusts, and servers with its
certificates.

``stanchion up`` creates the authority; ``stanchion listen`` and ``stanchion decide`` use it, so webhooks and
decision calls on a laptop use real TLS. The authority's key stays in ``keys``, and only an installation whose
API listens on loopback trusts it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trustme

from actors.egress.receivers import permitted
from actors.settings import Settings
from ops.embedded.passwords import write_private

if TYPE_CHECKING:
    from aiohttp import web

AUTHORITY_FILE: Final = "local-ca.pem"
KEY_FILE: Final = "keys/local-ca.key"
HOST: Final = "127.0.0.1"


class LocalHttpsError(Exception):
    """The local authority or server cannot be used. The message is one line."""


@dataclass(frozen=True)
class Request:
    """A received request: names of headers in lower case, ``body`` the exact bytes."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """The answer to a request."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Awaitable[Answer | None]]
"""Answers a request; ``None`` closes the connection without an answer."""


def with_local_egress(settings: Settings) -> Settings:
    """``settings`` under which a local installation trusts receivers on the same machine.

    Applies only if the API listens on loopback and ``STANCHION_EGRESS_CA_FILE`` names no other authority. It
    permits no address: each receiver requests its own (``local_receiver``).
    """
    if not _on_loopback(settings.api_host) or settings.egress_ca_file is not None:
        return settings
    return settings.replace(egress_ca_file=make_authority(settings.var_dir))


def make_authority(var_dir: Path) -> Path:
    """The certificate file of the authority of ``var_dir``, created on first use. The caller holds the
    folder's lock."""
    certificate, key = var_dir / AUTHORITY_FILE, var_dir / KEY_FILE
    if not (certificate.exists() and key.exists()):
        authority = trustme.CA(organization_name="Stanchion", organization_unit_name="local receivers")
        key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(key, authority.private_key_pem.bytes().decode("ascii"))
        write_private(certificate, authority.cert_pem.bytes().decode("ascii"))
    return certificate


def require_trust(var_dir: Path, trusted: str | None) -> None:
    """Raise LocalHttpsError unless ``trusted``, the ``egress_ca_file`` of the running installation, is the
    authority of ``var_dir``."""
    # Resolved, because the folder may be reached through a link.
    if trusted is None or Path(trusted).resolve() != (var_dir / AUTHORITY_FILE).resolve():
        raise LocalHttpsError(
            "this installation does not trust local receivers: it uses another authority "
            "(STANCHION_EGRESS_CA_FILE), or its API does not listen on loopback"
        )


def server_side(var_dir: Path, *names: str) -> ssl.SSLContext:
    """A server's TLS context with a new certificate for ``names`` (default: this machine's loopback names).

    Raises LocalHttpsError when the installation has no authority.
    """
    try:
        authority = trustme.CA.from_pem(
            (var_dir / AUTHORITY_FILE).read_bytes(), (var_dir / KEY_FILE).read_bytes()
        )
    except FileNotFoundError:
        raise LocalHttpsError(
            f"{var_dir} has no certificate authority yet; run `stanchion up` first"
        ) from None
    except (OSError, ValueError):
        raise LocalHttpsError(f"the authority in {var_dir} cannot be read") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    authority.issue_cert(*(names or (HOST, "localhost", "::1"))).configure_cert(context)
    return context


@asynccontextmanager
async def local_receiver(var_dir: Path, handler: Handler, port: int = 0) -> AsyncIterator[str]:
    """Serve ``handler`` under the authority of ``var_dir`` (see ``serving``), and permit its installation to
    call this address in test mode meanwhile. Raises LocalHttpsError."""
    async with serving(server_side(var_dir), handler, port) as url:
        with permitted(var_dir, HOST, int(url.rpartition(":")[2])):
            yield url


@asynccontextmanager
async def serving(tls: ssl.SSLContext, handler: Handler, port: int = 0) -> AsyncIterator[str]:
    """Serve ``handler`` on this machine, for every path; yields the address, ``https://127.0.0.1:<port>``.

    Raises LocalHttpsError when the port is not available.
    """
    # The import is slow, and the supervisor only makes the authority.
    from aiohttp import web

    connections: set[asyncio.BaseTransport] = set()

    async def answer(given: web.BaseRequest) -> web.StreamResponse:
        if given.transport is not None:
            connections.difference_update([each for each in connections if each.is_closing()])
            connections.add(given.transport)
        headers = {name.lower(): value for name, value in given.headers.items()}
        answered = await handler(Request(given.method, given.path_qs, headers, await given.read()))
        if answered is None:
            if given.transport is not None:
                cut_off(given.transport)
            return web.Response(status=500)
        return web.Response(status=answered.status, body=answered.body, headers=answered.headers)

    # Handlers that wait on purpose are cancelled when their connection ends.
    server = web.Server(answer, handler_cancellation=True, access_log=None)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, port, ssl_context=tls)
        try:
            await site.start()
        except OSError as failure:
            raise LocalHttpsError(f"cannot listen on {HOST}:{port}: {failure.strerror}") from None
        yield f"https://{HOST}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
        await _cut(connections)


async def _cut(connections: Iterable[asyncio.BaseTransport]) -> None:
    """Close connections without TLS's closing handshake, which could outlive the event loop."""
    for connection in connections:
        if isinstance(connection, asyncio.Transport):
            cut_off(connection)
    for _ in range(3):
        # An abort takes effect in the next iterations of the loop.
        await asyncio.sleep(0)


def cut_off(connection: asyncio.Transport) -> None:
    """Close a connection at once, even if it is already closing."""
    # In Python 3.11.2 a TLS connection that is closed twice has no transport left to abort.
    with suppress(AttributeError):
        connection.abort()


def _on_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
