"""Sign-on, sign-off, echo test and key change, from each side."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.network.card_secrets import CardSecrets
from actors.network.edge_times import EdgeTimes
from actors.network.links.entry import MacEntry
from actors.network.links.mac import LinkMac
from engine.iso8583.message import Message
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.respond import ECHO_TEST, KEY_CHANGE, SIGN_OFF, SIGN_ON
from tests.support.actors.network.links import (
    confirm,
    entry_of,
    managing,
    processor,
    running_link,
    state_of,
)
from tests.support.actors.network.support import Peer, request, until
from tests.support.engine.iso8583.messages import ORIGINAL

FIRST, SECOND = bytes(range(16)), bytes(range(16, 32))


# Sign-on and sign-off


@pytest.mark.parametrize("mti", ["0100", "0101", "0120", "0220", "0420"])
async def test_message_before_the_sign_on_gets_91_and_changes_nothing(
    card_secrets: CardSecrets, mti: str
) -> None:
    async with running_link(card_secrets, entry_of(sign_on="required")) as harness, harness.peer() as peer:
        message = request(1, mti, de90=ORIGINAL)
        assert (await peer.ask(message)).fields[39] == "91"
        assert harness.owners.submitted == []
        assert harness.edge.counts.screened == {"sign_on": 1}
        assert (await peer.ask(managing(SIGN_ON))).fields[39] == "00"
        assert harness.edge.signed_on == 1
        assert (await peer.ask(message)).fields[39] == "00"
        assert (await peer.ask(managing(SIGN_OFF))).fields[39] == "00"
        assert (await peer.ask(request(2, mti, de90=ORIGINAL))).fields[39] == "91"
        assert len(harness.owners.submitted) == 1


async def test_sign_on_counts_for_its_connection_alone(card_secrets: CardSecrets) -> None:
    async with (
        running_link(card_secrets, entry_of(sign_on="required")) as harness,
        harness.peer() as one,
        harness.peer() as other,
    ):
        assert (await one.ask(managing(SIGN_ON))).fields[39] == "00"
        assert (await other.ask(request(1))).fields[39] == "91"
        assert (await other.ask(managing(ECHO_TEST))).fields[39] == "00"
        assert (await one.ask(request(1))).fields[39] == "00"


@pytest.mark.parametrize("sign_on", ["optional", "none"])
async def test_link_without_required_sign_on_decides_at_once(card_secrets: CardSecrets, sign_on: str) -> None:
    async with running_link(card_secrets, entry_of(sign_on=sign_on)) as harness, harness.peer() as peer:
        assert (await peer.ask(request(1))).fields[39] == "00"
        assert (await peer.ask(managing(SIGN_OFF))).fields[39] == "00"
        assert (await peer.ask(request(2))).fields[39] == "00"


async def test_connecting_side_signs_on_and_then_decides(card_secrets: CardSecrets) -> None:
    async with processor() as peers:
        entry = entry_of(direction="connect", port=peers.port, connections=1, sign_on="required")
        async with running_link(card_secrets, entry) as harness:
            peer = await peers.accept()
            peer.send(request(1))
            sign_on = await peer.receive()
            assert (sign_on.mti, sign_on.fields[70]) == ("0800", SIGN_ON)
            assert (await peer.receive()).fields[39] == "91"
            assert state_of(harness) == "down"
            peer.send(Message("0810", sign_on.fields | {39: "00"}))
            assert (await peer.ask(request(2))).fields[39] == "00"
            assert state_of(harness) == "up"


async def test_refused_sign_on_closes_the_connection_and_is_the_last_error(card_secrets: CardSecrets) -> None:
    async with processor() as peers:
        entry = entry_of(direction="connect", port=peers.port, connections=1, sign_on="required")
        async with running_link(card_secrets, entry) as harness:
            peer = await peers.accept()
            assert await confirm(peer, "91") == SIGN_ON
            assert await peer.is_closed()
            assert harness.edge.counts.last_error == "sign-on answered with 91"
            peer = await peers.signed_on()
            await until(lambda: harness.edge.state == "up")


async def test_refused_optional_sign_on_keeps_the_connection(card_secrets: CardSecrets) -> None:
    async with processor() as peers:
        entry = entry_of(direction="connect", port=peers.port, connections=1, sign_on="optional")
        async with running_link(card_secrets, entry):
            peer = await peers.accept()
            assert await confirm(peer, "40") == SIGN_ON
            assert (await peer.ask(request())).fields[39] == "00"


async def test_link_without_sign_on_sends_none(card_secrets: CardSecrets) -> None:
    async with processor() as peers:
        entry = entry_of(direction="connect", port=peers.port, connections=1, sign_on="none")
        async with running_link(card_secrets, entry):
            peer = await peers.accept()
            assert (await peer.ask(request())).mti == "0110"


async def test_unanswered_sign_on_ends_the_connection(card_secrets: CardSecrets) -> None:
    async with processor() as peers:
        entry = entry_of(direction="connect", port=peers.port, connections=1, sign_on="optional")
        async with running_link(card_secrets, entry, times=EdgeTimes(reply_seconds=0.05)) as harness:
            peer = await peers.accept()
            assert (await peer.receive()).fields[70] == SIGN_ON
            assert await peer.is_closed()
            assert harness.edge.counts.last_error == "sign-on not answered"
            await peers.signed_on()


async def test_unasked_answer_counts_as_malformed(card_secrets: CardSecrets) -> None:
    async with running_link(card_secrets, entry_of()) as harness, harness.peer() as peer:
        for _ in range(3):
            peer.send(Message("0810", managing(SIGN_ON).fields | {39: "00"}))
        assert await peer.is_closed()
        assert harness.edge.counts.malformed == 3


# Echo tests


@pytest.mark.parametrize("direction", ["listen", "connect"])
async def test_silent_peer_gets_an_echo_test(card_secrets: CardSecrets, direction: str) -> None:
    async with processor() as peers:
        port = peers.port if direction == "connect" else 0
        entry = entry_of(direction=direction, port=port, connections=1, sign_on="none", echo_seconds=0.1)
        async with running_link(card_secrets, entry, times=EdgeTimes(reply_seconds=0.2)) as harness:
            peer = await peers.accept() if direction == "connect" else await harness.connect()
            assert await confirm(peer) == ECHO_TEST
            assert await confirm(peer) == ECHO_TEST
            # Without an answer the connection ends.
            assert (await peer.receive()).fields[70] == ECHO_TEST
            assert await peer.is_closed()
            assert harness.edge.counts.last_error == "echo test not answered"
            await peer.close()


# Key changes


class KeyFile:
    """The keys of a link in a file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "mac.key"
        self.write(FIRST)
        self.entry = MacEntry("aes-cmac", None, self.path)

    def write(self, *keys: bytes) -> None:
        fresh = self.path.with_suffix(".new")
        fresh.write_text("\n".join(key.hex() for key in keys))
        fresh.replace(self.path)


def sealed(message: Message, key: bytes) -> bytes:
    return ISO87_ASCII.framing.frame(LinkMac(MacEntry("aes-cmac", key, None)).encode(message, key))


async def received(peer: Peer, key: bytes) -> Message:
    """The next message, whose MAC must be right under ``key``."""
    payload = await peer.receive_bytes()
    message = ISO87_ASCII.decode(payload)
    assert LinkMac(MacEntry("aes-cmac", key, None)).verify(message, payload) == key
    return message


async def test_new_key_in_the_file_is_announced_and_used_after_the_answer(
    card_secrets: CardSecrets, tmp_path: Path
) -> None:
    file = KeyFile(tmp_path)
    entry = entry_of(mac=file.entry)
    async with (
        running_link(
            card_secrets, entry, times=EdgeTimes(reload_seconds=0.0, receipt_seconds=0.4)
        ) as harness,
        harness.peer() as peer,
    ):
        peer.writer.write(sealed(request(1), FIRST))
        assert (await received(peer, FIRST)).fields[39] == "00"
        file.write(SECOND, FIRST)
        change = await received(peer, SECOND)
        assert (change.mti, change.fields[70]) == ("0800", KEY_CHANGE)
        # Messages in flight still have the key before.
        peer.writer.write(sealed(request(2), FIRST))
        assert (await received(peer, FIRST)).fields[39] == "00"
        answer = Message("0810", {n: change.fields[n] for n in (7, 11, 70)} | {39: "00"})
        peer.writer.write(sealed(answer, SECOND))
        peer.writer.write(sealed(request(3), SECOND))
        assert (await received(peer, SECOND)).fields[39] == "00"
        file.write(SECOND)
        await until(lambda: harness.edge.counts.last_error is None)
        peer.writer.write(sealed(request(4), SECOND))
        assert (await received(peer, SECOND)).fields[39] == "00"


async def test_key_change_of_the_peer_is_accepted_under_a_known_key(
    card_secrets: CardSecrets, tmp_path: Path
) -> None:
    file = KeyFile(tmp_path)
    file.write(FIRST, SECOND)
    async with (
        running_link(card_secrets, entry_of(mac=file.entry), times=EdgeTimes(reload_seconds=600)) as harness,
        harness.peer() as peer,
    ):
        peer.writer.write(sealed(managing(KEY_CHANGE), SECOND))
        assert (await received(peer, SECOND)).fields[39] == "00"
        for foreign in (bytes(16), None):
            wrong = managing(KEY_CHANGE, 8)
            peer.send(wrong) if foreign is None else peer.writer.write(sealed(wrong, foreign))
            assert (await received(peer, SECOND)).fields[39] == "63"
        assert harness.edge.counts.screened == {"mac": 2}


async def test_key_change_on_a_link_without_mac_is_not_supported(card_secrets: CardSecrets) -> None:
    async with running_link(card_secrets, entry_of()) as harness, harness.peer() as peer:
        assert (await peer.ask(managing(KEY_CHANGE))).fields[39] == "40"


async def test_unusable_key_file_keeps_the_keys(card_secrets: CardSecrets, tmp_path: Path) -> None:
    file = KeyFile(tmp_path)
    async with (
        running_link(
            card_secrets, entry_of(mac=file.entry), times=EdgeTimes(reload_seconds=0.0, receipt_seconds=0.4)
        ) as harness,
        harness.peer() as peer,
    ):
        file.path.write_text("no key")
        await until(lambda: harness.edge.counts.last_error is not None)
        assert harness.edge.counts.last_error == "mac_key names a file that is not in hexadecimal digits"
        peer.writer.write(sealed(request(1), FIRST))
        assert (await received(peer, FIRST)).fields[39] == "00"
