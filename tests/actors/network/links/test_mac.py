"""On a link with MACs, a wrong or missing one changes nothing, and every answer carries one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from actors.network.card_secrets import CardSecrets
from actors.network.links.entry import MacEntry
from actors.network.links.mac import LinkMac
from actors.network.links.mac_keys import read_keys
from actors.vault import mac_of
from engine.iso8583.mac import KEY_BYTES, MacKeyError
from engine.iso8583.message import Message, as_repeat
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.respond import ECHO_TEST
from tests.support.actors.network.links import entry_of, managing, running_link
from tests.support.actors.network.support import Peer, request
from tests.support.engine.iso8583.messages import ORIGINAL

KEY = bytes(range(16))


def sealed(message: Message, algorithm: str = "aes-cmac", key: bytes = KEY) -> bytes:
    """The frame of ``message`` with its MAC, computed without ``LinkMac``."""
    number = 128 if max(message.fields) > 64 else 64
    payload = ISO87_ASCII.encode(Message(message.mti, message.fields | {number: "0" * 16}))[:-16]
    return ISO87_ASCII.framing.frame(payload + mac_of(algorithm, key, payload).hex().upper().encode())


async def answer_to(peer: Peer, sent: bytes, algorithm: str = "aes-cmac") -> Message:
    """The answer to a frame, whose MAC must be right."""
    peer.writer.write(sent)
    payload = await peer.receive_bytes()
    assert payload[-16:] == mac_of(algorithm, KEY, payload[:-16]).hex().upper().encode()
    return ISO87_ASCII.decode(payload)


@pytest.mark.parametrize("algorithm", KEY_BYTES)
@pytest.mark.parametrize("mti", ["0100", "0120", "0220", "0420"])
async def test_right_mac_is_accepted_and_answered_with_one(
    card_secrets: CardSecrets, algorithm: str, mti: str
) -> None:
    entry = entry_of(mac=MacEntry(algorithm, KEY, None))
    async with running_link(card_secrets, entry) as harness, harness.peer() as peer:
        sent = sealed(request(1, mti, de90=ORIGINAL), algorithm)
        assert (await answer_to(peer, sent, algorithm)).fields[39] == "00"
        assert harness.edge.counts.screened == {}


@pytest.mark.parametrize("fault", ["missing", "wrong", "other_key", "malformed", "altered", "wrong_field"])
@pytest.mark.parametrize("mti", ["0100", "0101", "0120", "0220", "0420"])
async def test_wrong_or_missing_mac_gets_63_and_reaches_no_owner(
    card_secrets: CardSecrets, mti: str, fault: str
) -> None:
    message = request(1, mti)
    right = sealed(message)
    sent = {
        "missing": ISO87_ASCII.framing.frame(ISO87_ASCII.encode(message)),
        "wrong": right[:-16] + b"0123456789ABCDEF",
        "other_key": sealed(message, key=bytes(16)),
        "malformed": right[:-16] + b"0123456789ABCDEX",
        "altered": right.replace(b"000000001234", b"000000009234"),
        "wrong_field": ISO87_ASCII.framing.frame(
            ISO87_ASCII.encode(Message(mti, message.fields | {64: "0" * 16, 90: ORIGINAL}))
        ),
    }[fault]
    async with running_link(card_secrets, entry_of(mac=MacEntry("aes-cmac", KEY, None))) as harness:
        async with harness.peer() as peer:
            assert (await answer_to(peer, sent)).fields[39] == "63"
        assert harness.owners.submitted == []
        assert harness.edge.counts.screened == {"mac": 1}


async def test_repeat_with_another_mac_gets_the_stored_answer(card_secrets: CardSecrets) -> None:
    """The MTI of a repeat differs, so its MAC does too; neither is part of the message's content."""
    entry = entry_of(mac=MacEntry("aes-cmac", KEY, None))
    async with running_link(card_secrets, entry) as harness, harness.peer() as peer:
        first = await answer_to(peer, sealed(request(1)))
        again = await answer_to(peer, sealed(as_repeat(request(1))))
        assert first == again
        assert len({command.fingerprint for command in harness.owners.submitted}) == 1


async def test_network_management_needs_no_mac_but_no_wrong_one_passes(card_secrets: CardSecrets) -> None:
    entry = entry_of(mac=MacEntry("aes-cmac", KEY, None))
    async with running_link(card_secrets, entry) as harness, harness.peer() as peer:
        echo = managing(ECHO_TEST)
        assert (await answer_to(peer, ISO87_ASCII.framing.frame(ISO87_ASCII.encode(echo)))).fields[39] == "00"
        assert (await answer_to(peer, sealed(echo))).fields[39] == "00"
        assert (await answer_to(peer, sealed(echo, key=bytes(16)))).fields[39] == "63"


async def test_overload_is_answered_with_a_mac(card_secrets: CardSecrets) -> None:
    entry = entry_of(mac=MacEntry("aes-cmac", KEY, None))
    async with running_link(card_secrets, entry, open_max=0) as harness, harness.peer() as peer:
        assert (await answer_to(peer, sealed(request(1)))).fields[39] == "91"
        assert harness.owners.submitted == []


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "names a file with 0 keys instead of 1 to 2"),
        ("00 " * 3, "names a file with 3 keys"),
        ("0x17", "is not in hexadecimal digits"),
        ("ä", "is not in hexadecimal digits"),
    ],
)
def test_unusable_key_files_are_refused_without_their_content(
    tmp_path: Path, content: str, error: str
) -> None:
    path = tmp_path / "mac.key"
    path.write_text(content, "utf-8")
    with pytest.raises(MacKeyError, match=error) as failure:
        read_keys(MacEntry("aes-cmac", None, path))
    assert not content.strip() or content not in str(failure.value)


def test_keys_are_in_no_representation() -> None:
    mac = LinkMac(MacEntry("aes-cmac", KEY, None))
    shown = repr(mac) + repr(entry_of(mac=MacEntry("aes-cmac", KEY, None)))
    assert KEY.hex() not in shown.lower()
    assert not re.search(r"\\x0[1-9]", shown)


def test_reload_keeps_the_current_key_until_another_is_adopted(tmp_path: Path) -> None:
    path = tmp_path / "mac.key"
    path.write_text(KEY.hex())
    mac = LinkMac(MacEntry("aes-cmac", None, path))
    assert mac.reload() is None
    path.write_text(bytes(16).hex())
    assert mac.reload() == bytes(16)
    assert mac.current == KEY
    mac.adopt(bytes(16))
    assert mac.reload() is None


async def test_link_without_mac_refuses_a_message_with_one(card_secrets: CardSecrets) -> None:
    changes: dict[str, Any] = {"de128": "0" * 16}
    async with running_link(card_secrets, entry_of()) as harness, harness.peer() as peer:
        assert (await peer.ask(request(1, **changes))).fields[39] == "30"
    assert harness.owners.submitted == []
    assert harness.edge.counts.screened == {}
