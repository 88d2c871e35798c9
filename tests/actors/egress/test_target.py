"""A corpus of hostile URLs is refused, and accepted URLs are parsed alike by other libraries."""

from __future__ import annotations

import contextlib
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from actors.egress.client import Egress
from actors.egress.target import REASONS, TargetRefusedError, parse_target
from tests.support.actors.egress.hostile_urls import HARMLESS, HOSTILE, lookup

PARTS = ["https://", "http://", "a.example", "127.0.0.1", "0x7f.1", "[::1]", "[fe80::1%25eth0]", "xn--a"]
MARKS = ["@", ":", ":443", ":8443", "/", "?", "#", "\\", "%2e", ".", "..", ",", "%00", "localhost", "é", "。"]
PIECES = st.sampled_from([*PARTS, *MARKS])


@pytest.fixture(scope="module")
def egress() -> Egress:
    """Shared by all tests: it opens no connection, and loading the certificate authorities is slow."""
    return Egress(lookup=lookup)


@pytest.mark.parametrize(("url", "reason"), HOSTILE, ids=lambda value: ascii(value)[:60])
async def test_hostile_url_is_refused_with_its_reason(egress: Egress, url: str, reason: str) -> None:
    with pytest.raises(TargetRefusedError) as refused:
        await egress.check(url)
    assert refused.value.reason == reason
    assert str(refused.value) == reason, "the message does not contain the URL"


def test_corpus_is_large_and_covers_every_reason() -> None:
    assert len({url for url, _ in HOSTILE}) == len(HOSTILE) >= 200
    assert {reason for _, reason in HOSTILE} == set(REASONS)


@pytest.mark.parametrize("url", HARMLESS)
async def test_ordinary_url_is_accepted(egress: Egress, url: str) -> None:
    await egress.check(url)


@given(st.one_of(st.lists(PIECES, max_size=8).map("".join), st.text(max_size=60)))
def test_accepted_url_is_parsed_alike_by_other_libraries(url: str) -> None:
    try:
        target = parse_target(url)
    except TargetRefusedError:
        return
    parsed = urlsplit(url)
    assert (parsed.hostname, parsed.port or 443) == (target.host, target.port)
    # This library may refuse the URL: it rejects names that look like invalid internationalized ones.
    with contextlib.suppress(UnicodeError):
        assert (URL(url, encoded=True).host, URL(url, encoded=True).port) == (target.host, target.port)
    assert url.endswith(target.rest) or target.rest.startswith("/?") or target.rest == "/"


@pytest.mark.parametrize(
    ("url", "header"),
    [
        ("https://hooks.example.com/a", "hooks.example.com"),
        ("https://hooks.example.com:443/a", "hooks.example.com"),
        ("https://hooks.example.com:8443/a", "hooks.example.com:8443"),
        ("https://[2001:DB8::1]/", "[2001:db8::1]"),
        ("https://[2001:db8::1]:8443/", "[2001:db8::1]:8443"),
    ],
)
def test_host_header_holds_the_given_name_and_port(url: str, header: str) -> None:
    assert parse_target(url).host_header == header
