"""``links.toml`` is read as written, and every error names file, line and field."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest

from actors.network.links.entry import DEFAULT_LINK, LinkEntry
from actors.network.links.errors import LinksError
from actors.network.links.file import configured_links, read_links, simulator_address
from actors.settings import Settings
from engine.iso8583.message_class import MESSAGE_CLASSES
from engine.limits import ECHO_SECONDS
from tests.support.actors.network.links import Authority

KEY = "0123456789ABCDEFFEDCBA9876543210"
PLAIN = """\
[[links]]
name = "sandbox"
direction = "listen"
mode = "test"
host = "127.0.0.1"
port = 8600
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "links.toml"
    path.write_text(text)
    return path


def read(folder: Path, text: str) -> tuple[LinkEntry, ...]:
    return read_links(written(folder, text))


def test_without_a_file_there_is_one_listener_in_test_mode() -> None:
    (entry,) = configured_links(Settings.load(iso8583_host="127.0.0.1", iso8583_port=8583))
    assert (entry.name, entry.direction, entry.mode) == (DEFAULT_LINK, "listen", "test")
    assert (entry.host, entry.port, entry.tls, entry.mac) == ("127.0.0.1", 8583, None, None)
    assert not entry.screens
    assert not entry.in_plain_text


def test_settings_name_the_file(tmp_path: Path) -> None:
    (entry,) = configured_links(Settings.load(links=written(tmp_path, PLAIN)))
    assert entry.name == "sandbox"


def test_every_field_is_read(tmp_path: Path) -> None:
    Authority(tmp_path).issue("edge", "edge.test")
    (tmp_path / "mac.key").write_text(f"{KEY}\n{KEY[::-1]}\n")
    out, into = read(
        tmp_path,
        """
[[links]]
name = "processor"
direction = "connect"
mode = "live"
host = "processor.example"
port = 9000
profile = "iso87-ascii"
connections = 4
institutions = ["00012345"]
iins = ["456000"]
sign_on = "optional"
echo_seconds = 45
idle_seconds = 120
mac_key = "mac.key"
mac_algorithm = "aes-cmac"
may_post = ["authorization", "reversal"]
in_flight = 500
bytes_per_second = 100000

[links.tls]
cert = "edge.crt"
key = "edge.key"
ca = "ca.pem"
server_name = "link.processor.example"
min_version = "1.3"

[[links]]
name = "regional"
direction = "listen"
mode = "test"
host = "0.0.0.0"
port = 8600
plaintext = "accepted"
allow = ["192.0.2.0/24", "2001:db8::/32"]
""",
    )
    assert (out.name, out.direction, out.mode, out.live) == ("processor", "connect", "live", True)
    assert (out.host, out.port, out.connections) == ("processor.example", 9000, 4)
    assert out.institutions == {"12345"}
    assert out.iins == ("456000",)
    assert (out.sign_on, out.echo_seconds, out.idle_seconds) == ("optional", 45, 120)
    assert out.mac is not None
    assert (out.mac.algorithm, out.mac.file) == ("aes-cmac", tmp_path / "mac.key")
    assert out.may_post == {"authorization", "reversal"}
    assert (out.in_flight, out.bytes_per_second) == (500, 100_000)
    assert out.tls is not None
    assert (out.tls.cert, out.tls.server_name, out.tls.min_version) == (
        tmp_path / "edge.crt",
        "link.processor.example",
        "1.3",
    )
    assert out.screens
    assert (into.direction, into.in_plain_text) == ("listen", True)
    assert into.allow == (ip_network("192.0.2.0/24"), ip_network("2001:db8::/32"))


def test_defaults_are_the_careful_ones(tmp_path: Path) -> None:
    (listening,) = read(tmp_path, PLAIN)
    (connecting,) = read(tmp_path, PLAIN.replace("listen", "connect"))
    assert listening.may_post == set(MESSAGE_CLASSES) - {"refund", "force_post"}
    assert (listening.sign_on, listening.echo_seconds, listening.connections) == ("required", 0, 64)
    assert (connecting.sign_on, connecting.echo_seconds, connecting.connections) == (
        "required",
        ECHO_SECONDS,
        1,
    )


def test_key_is_in_no_representation(tmp_path: Path) -> None:
    (entry,) = read(tmp_path, f'{PLAIN}mac_key = "{KEY}"\nmac_algorithm = "aes-cmac"\n')
    assert entry.mac is not None
    assert entry.mac.key == bytes.fromhex(KEY)
    assert KEY not in repr(entry)
    assert repr(entry.mac.key) not in repr(entry)


# Changes of PLAIN, the line and the start of the error.
FAULTS: list[tuple[str, str, int, str]] = [
    ("port = 8600", "port = 0", 6, "port: Expected `int` >= 1"),
    ("port = 8600", 'port = "8600"', 6, "port: Expected `int`, got `str`"),
    ("port = 8600", "", 1, "port: is missing"),
    ("port = 8600", "port = 8600\nprot = 1", 7, "prot: is no field"),
    ('mode = "test"', 'mode = "both"', 4, "mode: Invalid enum value"),
    ('mode = "test"', "", 1, "mode: is missing"),
    ('direction = "listen"', "", 1, "direction: is missing"),
    ('name = "sandbox"', 'name = "Sand box"', 2, "name: Expected `str` matching"),
    ("port = 8600", 'port = 8600\nprofile = "iso2003"', 7, "profile: 'iso2003' is not a shipped profile"),
    ("port = 8600", 'port = 8600\nallow = ["10.0.0.1/8"]', 7, "allow: must list networks"),
    ("port = 8600", 'port = 8600\nmay_post = ["loan"]', 7, "may_post: Invalid enum value"),
    ("port = 8600", "port = 8600\nmay_post = []", 7, "may_post: is empty"),
    ("port = 8600", 'port = 8600\ninstitutions = ["12a"]', 7, "institutions: Expected `str` matching"),
    ("port = 8600", 'port = 8600\niins = ["45"]', 7, "iins: Expected `str` matching"),
    ("port = 8600", "port = 8600\nconnections = 5000", 7, "connections: Expected `int` <= 1024"),
    ("port = 8600", 'port = 8600\nsign_on = "maybe"', 7, "sign_on: Invalid enum value"),
    ("port = 8600", f'port = 8600\nmac_key = "{KEY}"', 1, "mac_algorithm: is missing beside mac_key"),
    ("port = 8600", 'port = 8600\nmac_algorithm = "aes-cmac"', 7, "mac_algorithm: stands without mac_key"),
    (
        "port = 8600",
        f'port = 8600\nmac_key = "{KEY}"\nmac_algorithm = "rot13"',
        7,
        "mac_key: the MAC algorithm is none of",
    ),
    (
        "port = 8600",
        'port = 8600\nmac_key = "0123456789ABCDEF"\nmac_algorithm = "aes-cmac"',
        7,
        "mac_key: a key of aes-cmac has 16 or 24 or 32 bytes, not 8",
    ),
    (
        "port = 8600",
        'port = 8600\nmac_key = "nowhere.key"\nmac_algorithm = "aes-cmac"',
        7,
        "mac_key: is no key in hexadecimal digits, nor a file (No such file",
    ),
    ('host = "127.0.0.1"', 'host = "0.0.0.0"', 1, "tls: is missing and 0.0.0.0 is not loopback"),
    ('host = "127.0.0.1"', 'host = "edge.example"', 1, "tls: is missing and edge.example is not loopback"),
    (
        "port = 8600",
        'port = 8600\n[links.tls]\ncert = "a"\nkey = "b"',
        7,
        "tls.ca: is missing",
    ),
    (
        "port = 8600",
        'port = 8600\n[links.tls]\ncert = "a"\nkey = "b"\nca = "c"',
        8,
        "tls.cert: no such file",
    ),
    ("port = 8600", f"port = 8600\n{PLAIN}", 8, "name: occurs twice"),
    (
        "port = 8600",
        "port = 8600\n" + PLAIN.replace("sandbox", "other"),
        12,
        "port: belongs to an earlier link",
    ),
    (
        'direction = "listen"',
        'direction = "connect"\nallow = ["10.0.0.0/8"]',
        4,
        "allow: is for links that listen",
    ),
    ('direction = "listen"', 'direction = "connect"\nconnections = 33', 4, "connections: is above 32"),
]


@pytest.mark.parametrize(("old", "new", "line", "error"), FAULTS, ids=lambda value: str(value)[:40])
def test_error_names_file_line_and_field(tmp_path: Path, old: str, new: str, line: int, error: str) -> None:
    path = written(tmp_path, PLAIN.replace(old, new, 1))
    with pytest.raises(LinksError) as failure:
        read_links(path)
    message = str(failure.value)
    assert message.startswith(f"{path}, line {line}: {error}"), message
    assert "\n" not in message
    assert KEY not in message


def test_file_that_is_no_toml_gives_the_line(tmp_path: Path) -> None:
    path = written(tmp_path, f"{PLAIN}port 8600\n")
    with pytest.raises(LinksError, match=r"links\.toml: Expected .* \(at line 7, column 6\)"):
        read_links(path)


@pytest.mark.parametrize("text", ["", "[[link]]\nname = 'a'\n", "links = 1\n"])
def test_file_without_links_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(LinksError, match=r"links\.toml: link"):
        read(tmp_path, text)


def test_unreadable_file_gives_one_line(tmp_path: Path) -> None:
    with pytest.raises(LinksError, match=r"absent\.toml: cannot be read \(No such file or directory\)"):
        read_links(tmp_path / "absent.toml")


@pytest.mark.parametrize(
    ("damaged", "error"),
    [
        ("edge.key", r"line 8: tls\.cert: must hold the chain and its unencrypted key in PEM"),
        ("ca.pem", r"line 10: tls\.ca: must hold certificates in PEM"),
    ],
)
def test_unusable_tls_files_are_named(tmp_path: Path, damaged: str, error: str) -> None:
    Authority(tmp_path).issue("edge", "edge.test")
    (tmp_path / damaged).write_text("nothing")
    with pytest.raises(LinksError, match=error):
        read(tmp_path, f'{PLAIN}[links.tls]\ncert = "edge.crt"\nkey = "edge.key"\nca = "ca.pem"\n')


@pytest.mark.parametrize(
    ("direction", "field"), [("connect", 'client_names = ["a"]'), ("listen", 'server_name = "a"')]
)
def test_names_of_the_other_direction_are_refused(tmp_path: Path, direction: str, field: str) -> None:
    Authority(tmp_path).issue("edge", "edge.test")
    text = PLAIN.replace("listen", direction)
    with pytest.raises(LinksError, match=rf"line 11: tls\.{field.split(maxsplit=1)[0]}: is for links that"):
        read(tmp_path, f'{text}[links.tls]\ncert = "edge.crt"\nkey = "edge.key"\nca = "ca.pem"\n{field}\n')


def test_simulated_network_uses_the_first_open_link_of_test_mode(tmp_path: Path) -> None:
    (plain,) = read(tmp_path, PLAIN)
    (anywhere,) = read(tmp_path, PLAIN.replace("127.0.0.1", "0.0.0.0") + 'plaintext = "accepted"\n')
    (live,) = read(tmp_path, PLAIN.replace("test", "live"))
    (own,) = read(tmp_path, f'{PLAIN}institutions = ["999"]\n')
    (sealed,) = read(tmp_path, f'{PLAIN}mac_key = "{KEY}"\nmac_algorithm = "aes-cmac"\n')
    assert simulator_address((live, own, sealed, plain), "424242") == ("127.0.0.1", 8600)
    assert simulator_address((anywhere,), "424242") == ("127.0.0.1", 8600)
    assert simulator_address((live, own, sealed), "424242") is None
