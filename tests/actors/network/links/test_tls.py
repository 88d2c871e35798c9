"""Names in certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.network.links.entry import TlsEntry
from actors.network.links.tls import is_accepted, names_in

CERTIFICATE: dict[str, Any] = {
    "subject": ((("countryName", "IE"),), (("commonName", "link.example"),)),
    "subjectAltName": (("DNS", "a.example"), ("IP Address", "192.0.2.1"), ("DNS", "b.example")),
}


def test_names_are_dns_names_and_common_names() -> None:
    assert list(names_in(CERTIFICATE)) == ["a.example", "b.example", "link.example"]
    assert list(names_in({})) == []


@pytest.mark.parametrize(
    ("accepted", "certificate", "expected"),
    [
        (("b.example",), CERTIFICATE, True),
        (("link.example", "x"), CERTIFICATE, True),
        (("192.0.2.1",), CERTIFICATE, False),
        (("B.example.",), CERTIFICATE, False),
        ((), CERTIFICATE, True),
        ((), None, False),
        (("b.example",), None, False),
    ],
)
def test_accepted_names(
    accepted: tuple[str, ...], certificate: dict[str, Any] | None, expected: bool
) -> None:
    tls = TlsEntry(cert=Path("a"), key=Path("b"), ca=Path("c"), client_names=accepted)
    assert is_accepted(tls, certificate) is expected
