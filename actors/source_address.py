"""Source addresses for limits: the last address that a client cannot forge."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

IPV6_PREFIX: Final = 64
"""A provider assigns at least a /64 to each customer, so limits count it as one source."""

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def source_of(peer: str | None, forwarded: Sequence[str], trusted: Sequence[Network]) -> str:
    """The source as limits count it: an IPv4 address, or an IPv6 /64; ``unknown`` without a peer address.

    ``forwarded`` are the values of ``X-Forwarded-For`` in order. They are read from the right, while the
    sender of each value is a ``trusted`` proxy. A value that is not an address ends the chain.
    """
    address = _parsed(peer or "")
    if address is None:
        return "unknown"
    hops = [hop for value in forwarded for hop in value.split(",")]
    while hops and any(address in network for network in trusted if network.version == address.version):
        previous = _parsed(hops.pop())
        if previous is None:
            break
        address = previous
    return _source(address)


def is_trusted(peer: str | None, trusted: Sequence[Network]) -> bool:
    """Whether the connection's ``peer`` is one of the ``trusted`` proxies."""
    address = _parsed(peer or "") if trusted else None
    return address is not None and any(
        address in network for network in trusted if network.version == address.version
    )


def _parsed(text: str) -> Address | None:
    bare = text.strip().partition("%")[0]
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        address = ip_address(bare)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _source(address: Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    return str(ip_network((address, IPV6_PREFIX), strict=False))
