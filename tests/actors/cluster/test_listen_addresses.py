"""The ISO 8583 address of an installation: that of its link for simulations, or of the first that listens."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.cluster.listen_addresses import listen_addresses
from actors.settings import Settings

LISTEN = '[[links]]\nname = "{}"\ndirection = "listen"\nmode = "{}"\nhost = "127.0.0.1"\nport = {}\n'
CONNECT = '[[links]]\nname = "{}"\ndirection = "connect"\nmode = "{}"\nhost = "127.0.0.1"\nport = {}\n'


def test_without_links_it_is_that_of_the_settings() -> None:
    addresses = listen_addresses(Settings.load(iso8583_host="127.0.0.1", iso8583_port=4_711))
    assert (addresses.iso8583_host, addresses.iso8583_port) == ("127.0.0.1", 4_711)


@pytest.mark.parametrize(
    ("text", "port"),
    [
        (LISTEN.format("a", "live", 1) + LISTEN.format("b", "test", 2), 2),
        (CONNECT.format("a", "test", 1) + LISTEN.format("b", "live", 2), 2),
        (CONNECT.format("a", "test", 1), 0),
    ],
)
def test_with_links_it_is_that_of_a_listener(tmp_path: Path, text: str, port: int) -> None:
    path = tmp_path / "links.toml"
    path.write_text(text)
    assert listen_addresses(Settings.load(links=path)).iso8583_port == port
