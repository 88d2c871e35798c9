"""The client for all outgoing calls to receivers that customers name; it connects only to checked addresses.

Each call resolves the name, checks every address behind it, and connects to one of those addresses by number,
with the name in SNI, in the check of the certificate and in ``Host``. Idle connections are pooled by address
*and* name, so one is reused only after its address was checked for that name in the same call. A resolver
that changes its answer between check and use therefore has no effect (DNS rebinding). Redirects are not
followed, proxy variables are not read, answers are not decompressed, and cookies are not kept.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path
from typing import Final, NoReturn

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from actors.clock import Clock, SystemClock
from actors.egress.addresses import Address, Network, refused_kind
from actors.egress.receivers import LocalReceivers
from actors.egress.resolving import Lookup, Resolver, SystemLookup
from actors.egress.target import Target, TargetRefusedError, parse_target
from engine.limits import (
    EGRESS_ADDRESSES_MAX,
    EGRESS_CHECK_SECONDS,
    EGRESS_CONNECT_SECONDS,
    EGRESS_CONNECTIONS_MAX,
    EGRESS_CONNECTIONS_PER_TARGET_MAX,
    EGRESS_IDLE_SECONDS,
)

REASONS: Final = ("target_refused", "resolution", "connect", "tls", "timeout", "disconnected", "protocol")
"""Why a call has no answer: the target is refused; its name has no address; no connection; an untrusted
certificate, or no TLS; too slow; disconnected before the end of the answer; an answer that is not HTTP."""

_HEADERS: Final = {"User-Agent": "Stanchion/1", "Accept": "*/*", "Accept-Encoding": "identity"}
# After these errors the next address is tried. After others, the receiver may have read the request.
_NOT_CONNECTED: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_TLS_FAILED: Final = (aiohttp.ClientSSLError, ssl.SSLError, ssl.CertificateError)


class EgressError(Exception):
    """A call has no answer. ``reason`` is one of ``REASONS``; the error holds no bytes of the receiver."""

    def __init__(self, reason: str) -> None:
        assert reason in REASONS
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Received:
    """An answer: its status, the beginning of its body, and whether the body was longer."""

    status: int
    body: bytes
    truncated: bool


class Egress:
    """Outgoing HTTPS of one process. It can be created outside an event loop, and belongs to the loop of its
    first call."""

    def __init__(
        self,
        allow: Sequence[Network] = (),
        ca_file: Path | None = None,
        *,
        receivers: LocalReceivers | None = None,
        lookup: Lookup | None = None,
        clock: Clock | None = None,
        connections_per_target: int = EGRESS_CONNECTIONS_PER_TARGET_MAX,
    ) -> None:
        """``allow``: networks that may be called although they are not public; ``ca_file``: an additional
        certificate authority, PEM; ``receivers``: exceptions for test mode on this machine. Raises
        ``OSError`` (or its subclass ``ssl.SSLError``) when the authority cannot be read.
        """
        self._allow = tuple(allow)
        self._receivers = receivers
        self._tls = _tls_context(ca_file)
        self._threads = SystemLookup()
        self._resolver = Resolver(lookup or self._threads, clock or SystemClock())
        self._connections_per_target = connections_per_target
        self._session: aiohttp.ClientSession | None = None

    async def check(self, url: str, *, live: bool = True, party: str | None = None) -> None:
        """Check that ``url`` may be called now, in live or test mode. The look-up counts for ``party``
        (``actors.egress.resolving``). Raises ``TargetRefusedError``.
        """
        target = parse_target(url)
        try:
            async with asyncio.timeout(EGRESS_CHECK_SECONDS):
                await self._checked_addresses(target, party, live=live)
        except OSError:  # TimeoutError is one
            raise TargetRefusedError("unresolvable") from None

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        timeout_seconds: float,
        body_bytes_max: int,
        live: bool = True,
        party: str | None = None,
    ) -> Received:
        """Send ``body`` and read at most ``body_bytes_max`` bytes of the answer, which can have any status.

        ``timeout_seconds`` covers everything from the look-up of the name to the last byte. Raises
        ``EgressError``.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                target = parse_target(url)
                addresses = await self._resolved_addresses(target, party, live=live)
                return await self._first_answer(target, addresses, body, headers, body_bytes_max)
        except TargetRefusedError:
            raise EgressError("target_refused") from None
        except TimeoutError:
            raise EgressError("timeout") from None

    async def close(self) -> None:
        """Close every connection. Safe to call twice."""
        session, self._session = self._session, None
        self._resolver.close()
        self._threads.close()
        if session is not None:
            await session.close()

    async def _resolved_addresses(self, target: Target, party: str | None, *, live: bool) -> list[Address]:
        try:
            return await self._checked_addresses(target, party, live=live)
        except TimeoutError:
            raise
        except OSError:
            raise EgressError("resolution") from None

    async def _checked_addresses(self, target: Target, party: str | None, *, live: bool) -> list[Address]:
        """The addresses to try. One refused address refuses the name, because a resolver returns them in any
        order."""
        if target.literal is not None:
            addresses: tuple[Address, ...] = (target.literal,)
        else:
            addresses = await self._resolver.addresses(target.host, party)
        if any(self._refuses(address, target.port, live=live) for address in addresses):
            raise TargetRefusedError("address")
        return _addresses_to_try(addresses)

    def _refuses(self, address: Address, port: int, *, live: bool) -> bool:
        if refused_kind(address, self._allow) is None:
            return False
        return live or self._receivers is None or not self._receivers.permits(address, port)

    async def _first_answer(
        self,
        target: Target,
        addresses: list[Address],
        body: bytes,
        headers: Mapping[str, str],
        body_bytes_max: int,
    ) -> Received:
        for address in addresses:
            try:
                return await self._exchange(target, address, body, headers, body_bytes_max)
            except _NOT_CONNECTED as failure:
                if isinstance(failure, _TLS_FAILED):
                    raise EgressError("tls") from None
                continue
            except (aiohttp.ClientError, OSError, ValueError) as failure:
                _raise_egress_error(failure)
        raise EgressError("connect")

    async def _exchange(
        self, target: Target, address: Address, body: bytes, headers: Mapping[str, str], body_bytes_max: int
    ) -> Received:
        host = f"[{address}]" if isinstance(address, IPv6Address) else str(address)
        url = URL(f"https://{host}:{target.port}{target.rest}", encoded=True)
        async with self._client_session().post(
            url,
            data=body,
            headers={**_HEADERS, **headers, "Host": target.host_header},
            server_hostname=target.host,
            allow_redirects=False,
        ) as response:
            start = await _read_up_to(response.content, body_bytes_max + 1)
            if len(start) > body_bytes_max:
                response.close()  # do not read the remaining body
            return Received(response.status, start[:body_bytes_max], len(start) > body_bytes_max)

    def _client_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                resolver=_NoResolver(),
                use_dns_cache=False,
                happy_eyeballs_delay=None,
                limit=EGRESS_CONNECTIONS_MAX,
                limit_per_host=self._connections_per_target,
                keepalive_timeout=EGRESS_IDLE_SECONDS,
                ssl=self._tls,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=EGRESS_CONNECT_SECONDS),
            )
        return self._session


class _NoResolver(AbstractResolver):
    """The connector gets addresses only. If a name ever reaches it, the call fails."""

    async def resolve(self, *_args: object, **_options: object) -> list[ResolveResult]:
        raise OSError("names are resolved and checked before the connector gets them")

    async def close(self) -> None:
        """No resources to release."""


def _tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """A client context. ``create_default_context`` would write session keys to ``SSLKEYLOGFILE``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_default_certs()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context


def _addresses_to_try(addresses: tuple[Address, ...]) -> list[Address]:
    """The preferred address, then one of the other family if there is one: it is the most likely to work when
    the first fails."""
    first, *others = addresses
    others.sort(key=lambda address: address.version == first.version)
    return [first, *others][:EGRESS_ADDRESSES_MAX]


async def _read_up_to(content: aiohttp.StreamReader, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    wanted = bytes_max
    while wanted > 0 and (part := await content.read(wanted)):
        parts.append(part)
        wanted -= len(part)
    return b"".join(parts)


def _raise_egress_error(failure: Exception) -> NoReturn:
    if isinstance(failure, TimeoutError):
        raise failure
    if isinstance(failure, _TLS_FAILED):
        raise EgressError("tls") from None
    if isinstance(failure, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError | OSError):
        raise EgressError("disconnected") from None
    raise EgressError("protocol") from None
