"""The listener of a link, with or without TLS."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final, Protocol

from actors.connections import Admission, ConnectionLimits, ConnectionTable
from actors.network.links.entry import LinkEntry
from actors.network.links.tls import link_tls
from actors.tls import TlsListener
from engine.limits import LINK_HANDSHAKES_MAX, LINK_HANDSHAKES_PER_ADDRESS_MAX

BACKLOG: Final = 512
HANDSHAKES: Final = ConnectionLimits(
    connections_max=LINK_HANDSHAKES_MAX, per_address_max=LINK_HANDSHAKES_PER_ADDRESS_MAX
)


class ProtocolFactory(Protocol):
    """Makes the protocol of a connection."""

    def __call__(self, established: Callable[[], None] | None = None) -> asyncio.Protocol:
        """``established`` is called when the connection is established, after its handshake."""


class Listener:
    """Accepts connections of one link and makes a protocol for each. ``stop`` is safe to call twice."""

    def __init__(self, entry: LinkEntry, protocol: ProtocolFactory, refused: Callable[[str], None]) -> None:
        """``refused`` takes the reason for which a connection was closed before its handshake."""
        self._entry = entry
        self._protocol = protocol
        self._refused = refused
        self._server: asyncio.Server | TlsListener | None = None
        self._socket: socket.socket | None = None

    @property
    def is_up(self) -> bool:
        """Whether it accepts connections."""
        return self._server is not None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; with ``port`` 0 the system chooses the port. Edges of one machine share a port. Returns the
        address. Raises ``OSError``."""
        if self._entry.tls is None:
            loop = asyncio.get_running_loop()
            server = await loop.create_server(self._protocol, host, port, backlog=BACKLOG, reuse_port=True)
            self._server = server
            address = server.sockets[0].getsockname()
        else:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG, reuse_port=True)
            tls = link_tls(self._entry)
            self._server = TlsListener(self._socket, self._in_handshake, tls, self._handshakes())
            address = self._socket.getsockname()
        return address[0], address[1]

    def stop(self) -> None:
        """Accept no more connections; open ones stay."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        listening, self._socket = self._socket, None
        if listening is not None:
            # The kernel must not complete connections that are never accepted.
            asyncio.get_running_loop().call_soon(listening.close)

    def _handshakes(self) -> _HandshakeTable:
        return _HandshakeTable(self._entry.allow, self._refused)

    def _in_handshake(self, admission: Admission) -> asyncio.Protocol:
        return self._protocol(admission.end)


class _HandshakeTable:
    """Limits open handshakes, and refuses addresses outside ``allow`` before theirs."""

    def __init__(self, allow: Sequence[IPv4Network | IPv6Network], refused: Callable[[str], None]) -> None:
        self._allow = allow
        self._refused = refused
        self._table = ConnectionTable(HANDSHAKES)

    def admit(self, peer: str | None) -> Admission | None:
        if not is_allowed(self._allow, peer or ""):
            self._refused("address")
            return None
        return self._table.admit(peer)


def is_allowed(allow: Sequence[IPv4Network | IPv6Network], address: str) -> bool:
    """Whether ``address`` is in one of the networks, or there are none."""
    if not allow:
        return True
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None) or parsed
    return any(mapped in network for network in allow if network.version == mapped.version)
