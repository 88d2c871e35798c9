"""Which addresses customers may name: a pure check of one address.

A table lists the networks that are not the public internet, after the IANA special-purpose registries (RFC
6890 and its updates). IPv6 addresses that embed an IPv4 address are refused. If their network is allowed, the
embedded address is checked as well: an IPv6-only installation can allow its NAT64 prefix without opening its
private IPv4 networks. The standard library's ``is_global`` accepts several of these addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def _table(*rows: tuple[str, str]) -> tuple[tuple[Network, str], ...]:
    return tuple((ip_network(network), kind) for network, kind in rows)


# The first row that contains the address gives its kind, so narrower networks come before wider ones.
_SPECIAL_V4: Final = _table(
    ("0.0.0.0/8", "unspecified"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "carrier_nat"),
    ("127.0.0.0/8", "loopback"),
    # The host agent of a large cloud answers at this public address.
    ("168.63.129.16/32", "cloud_agent"),
    ("169.254.0.0/16", "link_local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "protocol"),
    ("192.0.2.0/24", "documentation"),
    ("192.31.196.0/24", "protocol"),
    ("192.52.193.0/24", "protocol"),
    ("192.88.99.0/24", "translation"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "protocol"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "broadcast"),
    ("240.0.0.0/4", "reserved"),
)
_SPECIAL_V6: Final = _table(
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::ffff:0:0/96", "translation"),
    ("::ffff:0:0:0/96", "translation"),
    ("::/96", "translation"),
    ("64:ff9b::/96", "translation"),
    ("64:ff9b:1::/48", "translation"),
    ("100::/64", "discard"),
    ("2001::/32", "translation"),
    ("2001:2::/48", "benchmarking"),
    ("2001::/23", "protocol"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "translation"),
    ("2620:4f:8000::/48", "protocol"),
    ("3ffe::/16", "reserved"),
    ("3fff::/20", "documentation"),
    ("fc00::/7", "private"),
    ("fe80::/10", "link_local"),
    ("fec0::/10", "private"),
    ("ff00::/8", "multicast"),
)
_GLOBAL_V6: Final = IPv6Network("2000::/3")
# Interface identifiers of ISATAP (RFC 5214): the IPv4 address follows them.
_ISATAP: Final = frozenset({0x0000_5EFE, 0x0200_5EFE})
_LAST_32_BITS: Final = (
    IPv6Network("::ffff:0:0/96"),
    IPv6Network("::ffff:0:0:0/96"),
    IPv6Network("::/96"),
    IPv6Network("64:ff9b::/96"),
    IPv6Network("64:ff9b:1::/48"),
)

KINDS: Final = frozenset(kind for _, kind in (*_SPECIAL_V4, *_SPECIAL_V6))
"""All kinds of networks that are refused."""


def refused_kind(address: Address, allow: Sequence[Network]) -> str | None:
    """The kind of network for which ``address`` is refused, or ``None`` if it may be called.

    ``allow`` holds the installation's exceptions (``STANCHION_EGRESS_ALLOW``).
    """
    if not _contains(allow, address):
        kind = special_kind(address)
        if kind is not None:
            return kind
    if isinstance(address, IPv6Address):
        for inner in embedded_v4(address):
            kind = refused_kind(inner, allow)
            if kind is not None:
                return kind
    return None


def special_kind(address: Address) -> str | None:
    """The kind of ``address``, or ``None`` if it belongs to the public internet."""
    table = _SPECIAL_V4 if isinstance(address, IPv4Address) else _SPECIAL_V6
    for network, kind in table:
        if address in network:
            return kind
    if isinstance(address, IPv6Address) and address not in _GLOBAL_V6:
        return "reserved"
    return None


def embedded_v4(address: IPv6Address) -> Iterable[IPv4Address]:
    """The IPv4 addresses that gateways extract from ``address``."""
    number = int(address)
    last = IPv4Address(number & 0xFFFF_FFFF)
    # `::` and `::1` are not IPv4-compatible addresses; they have rows of their own.
    if number > 1 and any(address in network for network in _LAST_32_BITS):
        yield last
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if (number >> 32) & 0xFFFF_FFFF in _ISATAP:
        yield last


def _contains(networks: Sequence[Network], address: Address) -> bool:
    return any(network.version == address.version and address in network for network in networks)
