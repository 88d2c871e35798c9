"""Parses a URL that a customer gave, by a grammar narrower than that of any library.

If two parsers read one URL differently, the host that is checked can differ from the host that is called. So
every ambiguous URL is refused: other spellings of IPv4 addresses, names with a final dot, IPv6 zone ids,
escapes in the host, backslashes, and characters other than visible ASCII (names in other scripts use their
``xn--`` form).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

from actors.egress.addresses import Address
from engine.limits import EGRESS_URL_CHARS_MAX

HTTPS_PORT: Final = 443
UNPRIVILEGED_PORT_MIN: Final = 1024
PORT_MAX: Final = 65_535

REASONS: Final = (
    "malformed",
    "scheme",
    "userinfo",
    "fragment",
    "host",
    "port",
    "unresolvable",
    "address",
)
"""Why a target is refused: the URL as a whole, one of its parts, a name without addresses, or an address
outside the public internet."""

_VISIBLE_ASCII: Final = re.compile(r"[\x21-\x7e]+")
_URL: Final = re.compile(r"https://(?P<authority>[^/?#]*)(?P<rest>[^#]*)")
_AUTHORITY: Final = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{1,5}))?")
_NAME: Final = re.compile(
    r"(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")


class TargetRefusedError(Exception):
    """The target may not be called. ``reason`` is one of ``REASONS``; the error does not contain the
    address."""

    def __init__(self, reason: str) -> None:
        assert reason in REASONS
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Target:
    """A parsed URL. ``host`` is a lower-case name, or the text of ``literal``."""

    host: str
    literal: Address | None
    port: int
    rest: str
    """Path and query exactly as given, beginning with ``/``."""

    @property
    def host_header(self) -> str:
        """The value of the ``Host`` header."""
        host = f"[{self.host}]" if isinstance(self.literal, IPv6Address) else self.host
        return host if self.port == HTTPS_PORT else f"{host}:{self.port}"


@lru_cache(maxsize=4096)
def parse_target(url: str) -> Target:
    """Parse ``url``. Raises ``TargetRefusedError`` unless it is a plain https URL.

    Results are cached, because deliveries use the same few URLs.
    """
    if len(url) > EGRESS_URL_CHARS_MAX or not _VISIBLE_ASCII.fullmatch(url) or "\\" in url:
        raise TargetRefusedError("malformed")
    if not url.startswith("https://"):
        raise TargetRefusedError("scheme")
    parts = _URL.fullmatch(url)
    if parts is None:
        raise TargetRefusedError("fragment")
    authority = parts["authority"]
    if "@" in authority:
        raise TargetRefusedError("userinfo")
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        # The text after a single colon outside brackets is meant as the port.
        raise TargetRefusedError("port" if re.fullmatch(r"[^:\[\]]+:[^:]*", authority) else "host")
    host, literal = _host(found["host"].lower())
    port = HTTPS_PORT if found["port"] is None else int(found["port"])
    # Lower ports belong to other protocols, whose servers must not receive a signed body.
    if port != HTTPS_PORT and not UNPRIVILEGED_PORT_MIN <= port <= PORT_MAX:
        raise TargetRefusedError("port")
    rest = parts["rest"]
    return Target(host, literal, port, rest if rest.startswith("/") else f"/{rest}")


def _host(host: str) -> tuple[str, Address | None]:
    try:
        if host.startswith("["):
            if "%" in host:
                raise TargetRefusedError("host")
            v6 = IPv6Address(host[1:-1])
            return str(v6), v6
        if _NUMBER.fullmatch(host.rpartition(".")[2]):
            v4 = IPv4Address(host)
            return str(v4), v4
    except AddressValueError:
        raise TargetRefusedError("host") from None
    if not _NAME.fullmatch(host):
        raise TargetRefusedError("host")
    return host, None
