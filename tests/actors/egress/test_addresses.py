"""Which addresses may be called: by a table, and compared with the standard library."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.egress.addresses import KINDS, refused_kind, special_kind

KIND_OF = {
    "0.0.0.0": "unspecified",
    "10.1.2.3": "private",
    "100.64.0.1": "carrier_nat",
    "127.0.0.1": "loopback",
    "168.63.129.16": "cloud_agent",
    "169.254.169.254": "link_local",
    "172.16.0.1": "private",
    "192.0.0.170": "protocol",
    "192.0.2.1": "documentation",
    "192.31.196.1": "protocol",
    "192.52.193.1": "protocol",
    "192.88.99.1": "translation",
    "192.168.1.1": "private",
    "192.175.48.1": "protocol",
    "198.18.0.1": "benchmarking",
    "198.51.100.1": "documentation",
    "203.0.113.1": "documentation",
    "224.0.0.251": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "broadcast",
    "::": "unspecified",
    "::1": "loopback",
    "::2": "translation",
    "::ffff:8.8.8.8": "translation",
    "::ffff:0:8.8.8.8": "translation",
    "64:ff9b::8.8.8.8": "translation",
    "64:ff9b:1::1": "translation",
    "100::1": "discard",
    "2001::1": "translation",
    "2001:2::1": "benchmarking",
    "2001:20::1": "protocol",
    "2001:db8::1": "documentation",
    "2002:808:808::1": "translation",
    "2620:4f:8000::1": "protocol",
    "3ffe::1": "reserved",
    "3fff::1": "documentation",
    "4000::1": "reserved",
    "fc00::1": "private",
    "fd12::1": "private",
    "fe80::1": "link_local",
    "fec0::1": "private",
    "ff02::1": "multicast",
}
PRIVATE_V4 = st.sampled_from(["127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1"]).map(IPv4Address)
ADDRESSES = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6))


@pytest.mark.parametrize(("text", "kind"), KIND_OF.items())
def test_special_address_is_refused_with_its_kind(text: str, kind: str) -> None:
    assert refused_kind(ip_address(text), ()) == kind


def test_the_table_has_a_row_for_each_kind() -> None:
    assert set(KIND_OF.values()) == KINDS


@pytest.mark.parametrize(
    "text", ["8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1", "2606:4700::1111"]
)
def test_public_addresses_may_be_called(text: str) -> None:
    assert refused_kind(ip_address(text), ()) is None


@given(ADDRESSES)
def test_addresses_that_the_standard_library_calls_private_are_refused(
    address: IPv4Address | IPv6Address,
) -> None:
    if not address.is_global or address.is_multicast or address.is_reserved:
        assert special_kind(address) is not None


@given(ADDRESSES)
def test_allowed_network_opens_only_itself(address: IPv4Address | IPv6Address) -> None:
    allow = [ip_network("127.0.0.0/8"), ip_network("fd00::/8")]
    if any(address in network for network in allow):
        assert refused_kind(address, allow) is None
    else:
        assert refused_kind(address, allow) == refused_kind(address, ())


@given(
    PRIVATE_V4,
    st.sampled_from(["64:ff9b::", "64:ff9b:1:7::", "::ffff:0:0", "2606:2800::5efe:0:0"]),
)
def test_allowed_translation_network_does_not_open_embedded_addresses(
    inner: IPv4Address, prefix: str
) -> None:
    outer = IPv6Address(int(IPv6Address(prefix)) | int(inner))
    allow = [ip_network((outer, 64), strict=False)]
    assert refused_kind(outer, allow) == special_kind(inner)
    assert refused_kind(outer, [*allow, ip_network(inner)]) is None


@given(PRIVATE_V4)
def test_addresses_embedded_by_6to4_and_teredo_are_checked(inner: IPv4Address) -> None:
    sixtofour = IPv6Address(0x2002 << 112 | int(inner) << 80 | 1)
    teredo = IPv6Address(0x20010000 << 96 | int(IPv4Address("8.8.8.8")) << 64 | int(inner) ^ 0xFFFF_FFFF)
    for outer in (sixtofour, teredo):
        assert refused_kind(outer, [ip_network("2000::/3")]) == special_kind(inner)


def test_nat64_can_be_allowed_for_public_receivers() -> None:
    allow = [ip_network("64:ff9b::/96")]
    assert refused_kind(IPv6Address("64:ff9b::8.8.8.8"), allow) is None
    assert refused_kind(IPv6Address("64:ff9b::10.0.0.1"), allow) == "private"
