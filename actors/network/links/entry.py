"""One entry of ``links.toml``, read and checked."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path
from typing import Final, Literal

import msgspec

from engine.iso8583.message_class import MESSAGE_CLASSES, MessageClass
from engine.iso8583.profile import Profile
from engine.iso8583.profiles import ISO87_ASCII
from engine.limits import (
    ECHO_SECONDS,
    EDGE_CONNECTIONS_MAX,
    EDGE_CONNECTIONS_PER_ADDRESS_MAX,
    EDGE_IDLE_SECONDS,
    EDGE_SILENT_SECONDS,
)

Direction = Literal["listen", "connect"]
Mode = Literal["test", "live"]
SignOn = Literal["required", "optional", "none"]
TlsVersion = Literal["1.2", "1.3"]

DEFAULT_LINK: Final = "default"
"""Name of the link without a ``links.toml``: the listener at ``STANCHION_ISO8583_HOST``."""


class TlsEntry(msgspec.Struct, frozen=True, kw_only=True):
    """TLS of a link. Files are PEM; the key is not encrypted."""

    cert: Path
    """Certificate chain of this side."""
    key: Path
    ca: Path
    """Authorities that may sign the peer's certificate."""
    client_names: tuple[str, ...] = ()
    """Accepted names of clients (DNS names of the certificate, or its common name); empty: every certificate
    of ``ca``."""
    server_name: str | None = None
    """Name in the certificate of the server to which the link connects; ``None``: the link's ``host``."""
    min_version: TlsVersion = "1.2"


class MacEntry(msgspec.Struct, frozen=True):
    """MAC of a link."""

    algorithm: str
    """One of ``engine.iso8583.mac.KEY_BYTES``."""
    key: bytes | None
    """The key, if ``links.toml`` holds it."""
    file: Path | None
    """The file with the key or keys in hexadecimal digits, the current one first."""

    def __repr__(self) -> str:
        return f"MacEntry({self.algorithm})"


class LinkEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A link as configured."""

    name: str
    direction: Direction = "listen"
    mode: Mode = "test"
    host: str
    port: int
    profile: Profile = ISO87_ASCII
    connections: int = EDGE_CONNECTIONS_MAX
    """Listening: the most open connections. Connecting: the connections that each edge keeps open."""
    per_address: int = EDGE_CONNECTIONS_PER_ADDRESS_MAX
    tls: TlsEntry | None = None
    plaintext_accepted: bool = False
    allow: tuple[IPv4Network | IPv6Network, ...] = ()
    """Networks that may connect; empty: every address."""
    institutions: frozenset[str] = frozenset()
    """Acceptable DE32 and DE33, without leading zeros; empty: every institution."""
    iins: tuple[str, ...] = ()
    """First digits of acceptable card numbers; empty: every card number."""
    sign_on: SignOn = "optional"
    echo_seconds: float = 0
    """Silence after which this side sends an echo test; 0: never."""
    idle_seconds: int = EDGE_IDLE_SECONDS
    silent_seconds: int = EDGE_SILENT_SECONDS
    """The same for a connection that has never sent a request."""
    mac: MacEntry | None = None
    may_post: frozenset[MessageClass] = frozenset(MESSAGE_CLASSES)
    in_flight: int | None = None
    """Open messages of all connections of one edge above which new authorizations are refused."""
    bytes_per_second: int | None = None
    """Bytes received on all connections of one edge above which it reads more slowly."""

    @property
    def live(self) -> bool:
        """Whether the link meets live cards; otherwise it meets test cards."""
        return self.mode == "live"

    @property
    def listens(self) -> bool:
        """Whether peers connect to this side."""
        return self.direction == "listen"

    @property
    def screens(self) -> bool:
        """Whether messages can be refused by their class, institution or IIN."""
        return bool(self.institutions or self.iins) or len(self.may_post) < len(MESSAGE_CLASSES)

    @property
    def in_plain_text(self) -> bool:
        """Whether messages leave this machine without encryption."""
        return self.tls is None and not is_loopback(self.host)


def default_link(host: str, port: int) -> LinkEntry:
    """The link of an installation without ``links.toml``: a listener in test mode."""
    return LinkEntry(name=DEFAULT_LINK, host=host, port=port)


DEFAULT_ECHO_SECONDS: Final = ECHO_SECONDS
"""``echo_seconds`` of a link that connects."""


def is_loopback(host: str) -> bool:
    """Whether ``host`` is an address of this machine that others cannot reach."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
