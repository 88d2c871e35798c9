"""Outgoing HTTPS connections to checked addresses, pooled by address and name."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from ipaddress import IPv6Address
from typing import Final, NoReturn

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from actors.egress.addresses import Address
from actors.egress.answers import EgressError, Received
from actors.egress.target import Target
from engine.limits import EGRESS_CONNECT_SECONDS, EGRESS_CONNECTIONS_MAX, EGRESS_IDLE_SECONDS

_HEADERS: Final = {"User-Agent": "Stanchion/1", "Accept": "*/*", "Accept-Encoding": "identity"}
# After these errors the next address is tried. After others, the receiver may have read the request.
_NOT_CONNECTED: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_TLS_FAILED: Final = (aiohttp.ClientSSLError, ssl.SSLError, ssl.CertificateError)


class Connections:
    """The connections of one process. They belong to the event loop that creates them."""

    def __init__(self, tls: ssl.SSLContext, per_target: int) -> None:
        connector = aiohttp.TCPConnector(
            resolver=_NoResolver(),
            use_dns_cache=False,
            happy_eyeballs_delay=None,
            limit=EGRESS_CONNECTIONS_MAX,
            limit_per_host=per_target,
            keepalive_timeout=EGRESS_IDLE_SECONDS,
            ssl=tls,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=EGRESS_CONNECT_SECONDS),
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    async def first_answer(
        self,
        target: Target,
        addresses: list[Address],
        body: bytes,
        headers: Mapping[str, str],
        body_bytes_max: int,
    ) -> Received:
        """The answer from the first of ``addresses`` that accepts a connection. Raises ``EgressError`` and
        ``TimeoutError``."""
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
        async with self._session.post(
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


class _NoResolver(AbstractResolver):
    """The connector gets addresses only. If a name ever reaches it, the call fails."""

    async def resolve(self, *_args: object, **_options: object) -> list[ResolveResult]:
        raise OSError("names are resolved and checked before the connector gets them")

    async def close(self) -> None:
        """No resources to release."""


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
