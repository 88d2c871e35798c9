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
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from actors.clock import Clock, SystemClock
from actors.egress.addresses import Address, Network, refused_kind
from actors.egress.answers import EgressError, Received
from actors.egress.receivers import LocalReceivers
from actors.egress.resolving import Lookup, Resolver, SystemLookup
from actors.egress.target import Target, TargetRefusedError, parse_target
from engine.limits import (
    EGRESS_ADDRESSES_MAX,
    EGRESS_CHECK_SECONDS,
    EGRESS_CONNECTIONS_PER_TARGET_MAX,
)

if TYPE_CHECKING:
    from actors.egress.connections import Connections


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
        self._opening = asyncio.Lock()
        self._connections: Connections | None = None

    async def open(self) -> Connections:
        """Load the HTTP client and the machine's certificates. The first call does so otherwise: both are a
        tenth of the start of an API server, and many servers make no call."""
        async with self._opening:
            if self._connections is None:
                # In a thread: the loop serves other requests meanwhile.
                module = await asyncio.to_thread(import_module, "actors.egress.connections")
                self._tls.load_default_certs()
                connections: Connections = module.Connections(self._tls, self._connections_per_target)
                self._connections = connections
            return self._connections

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
                connections = self._connections or await self.open()
                return await connections.first_answer(target, addresses, body, headers, body_bytes_max)
        except TargetRefusedError:
            raise EgressError("target_refused") from None
        except TimeoutError:
            raise EgressError("timeout") from None

    async def close(self) -> None:
        """Close every connection. Safe to call twice."""
        connections, self._connections = self._connections, None
        self._resolver.close()
        self._threads.close()
        if connections is not None:
            await connections.close()

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


def _tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """A client context, still without the machine's certificates. ``create_default_context`` would write
    session keys to ``SSLKEYLOGFILE``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context


def _addresses_to_try(addresses: tuple[Address, ...]) -> list[Address]:
    """The preferred address, then one of the other family if there is one: it is the most likely to work when
    the first fails."""
    first, *others = addresses
    others.sort(key=lambda address: address.version == first.version)
    return [first, *others][:EGRESS_ADDRESSES_MAX]
