"""The source that limits count is the last address that a client cannot forge."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.source_address import source_of

PROXIES = (ip_network("10.0.0.0/8"), ip_network("2001:db8:ffff::/48"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "source"),
    [
        ("203.0.113.9", [], "203.0.113.9"),
        ("203.0.113.9", ["198.51.100.7"], "203.0.113.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["1.2.3.4, 198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["1.2.3.4", "198.51.100.7, 10.9.9.9"], "198.51.100.7"),
        ("10.0.0.1", ["10.1.1.1,10.2.2.2"], "10.1.1.1"),
        ("10.0.0.1", ["1.2.3.4, nonsense"], "10.0.0.1"),
        ("10.0.0.1", ["1.2.3.4, "], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7:4711"], "198.51.100.7"),
        ("10.0.0.1", ["[2001:db8:1:2::9]:4711"], "2001:db8:1:2::/64"),
        ("2001:db8:ffff::1", ["2001:db8:1:2:3:4:5:6"], "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", [], "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", [], "2001:db8:1:2::/64"),
        ("fe80::1%eth0", [], "fe80::/64"),
        ("::ffff:203.0.113.9", [], "203.0.113.9"),
        ("::ffff:10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        (None, ["198.51.100.7"], "unknown"),
        ("/run/socket", [], "unknown"),
    ],
)
def test_source_is_the_last_address_that_a_client_cannot_forge(
    peer: str | None, forwarded: list[str], source: str
) -> None:
    assert source_of(peer, forwarded, PROXIES) == source


@settings(deadline=None)
@given(st.lists(st.text(max_size=40), max_size=3))
def test_forwarded_addresses_of_untrusted_peers_are_ignored(forwarded: list[str]) -> None:
    assert source_of("203.0.113.9", forwarded, PROXIES) == "203.0.113.9"
