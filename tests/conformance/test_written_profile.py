"""The worked example of "Writing a profile" in ``ops/docs/WIRE.md``: the printed file, request and answer.

The peer is pyiso8583 with a specification of its own, so the page is also checked against another
implementation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any, Final

import iso8583
import pytest

from actors.network.card_secrets import CardSecrets
from actors.vault import Vault
from engine.commands import Advise
from engine.iso8583.profile import Profile
from engine.iso8583.profiles import ProfileError, parse_profile
from engine.replies import WireAnswer
from tests.support.actors.network.support import WAIT_SECONDS, Harness, approve, running_edge
from tests.support.conformance.dialects import DIALECTS, Document
from tests.support.ops.pages import fence

WIRE = "ops/docs/WIRE.md"
HEADING = "Writing a profile"
AUTHORIZATION: Final = "01900000-0000-7000-8000-0000000000a7"
TPDU, ANSWERED_TPDU = "60aaaabbbb", "60bbbbaaaa"
SALE: Final = {
    "h": TPDU.upper(),
    "t": "0200",
    "2": "4111111111111111",
    "3": "000000",
    "4": "000000001234",
    "7": "1121103000",
    "11": "000123",
    "18": "5411",
    "22": "051",
    "32": "424242",
    "41": "TERM0001",
    "43": "Corner shop            Dublin         IE",
    "49": "978",
    "60": "P738      ",
    "62": "NET0000042",
}


def specification() -> dict[str, Any]:
    """Acme's messages for pyiso8583."""
    spec: dict[str, Any] = deepcopy(dict(DIALECTS["iso87-binary"].spec))
    for entry in spec.values():
        if "left_pad" in entry:
            entry["right_pad"] = entry.pop("left_pad")
    spec["h"] |= {"data_enc": "b", "max_len": 5}
    spec["60"] |= {"len_type": 0, "max_len": 10}
    spec["62"] |= {"len_enc": "b", "len_type": 1, "max_len": 20}
    return spec


SPEC: Final = specification()


class Acme:
    """A connection of the processor."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def ask(self, document: Document) -> Document:
        payload = bytes(iso8583.encode(dict(document), SPEC)[0])
        return dict(iso8583.decode((await self.ask_bytes(b"%04d" % len(payload) + payload))[4:], SPEC)[0])

    async def ask_bytes(self, frame: bytes) -> bytes:
        self.writer.write(frame)
        async with asyncio.timeout(WAIT_SECONDS):
            size = await self._reader.readexactly(4)
            return size + await self._reader.readexactly(int(size))


def printed(section: str) -> bytes:
    """The frame in a section of the page; text after two spaces explains the bytes."""
    text = fence(WIRE, section, "text")
    return bytes.fromhex("".join(line.split("  ")[0] for line in text.splitlines()))


@pytest.fixture
def profile() -> Profile:
    return parse_profile(fence(WIRE, HEADING, "toml"), "acme.toml")


@pytest.fixture
async def harness(profile: Profile, vault: Vault) -> AsyncIterator[Harness]:
    async with running_edge(CardSecrets(vault), profile=profile) as running:
        yield running


@pytest.fixture
async def acme(harness: Harness) -> AsyncIterator[Acme]:
    reader, writer = await asyncio.open_connection(*harness.address)
    yield Acme(reader, writer)
    writer.close()
    await writer.wait_closed()


async def test_printed_request_gets_the_printed_answer(harness: Harness, acme: Acme) -> None:
    harness.owners.decide = lambda _: WireAnswer("N7", AUTHORIZATION, reason="cvv2_mismatch")
    request = printed("A request of the example")
    assert request[4:] == bytes(iso8583.encode(dict(SALE), SPEC)[0])
    answer = await acme.ask_bytes(request)
    assert answer == printed("Its answer")
    (command,) = harness.owners.authorizations
    assert (command.cvv2, command.partial_allowed, command.wire.network_txn_id) == (
        "mismatch",
        True,
        "NET0000042",
    )


async def test_repeat_is_recognized_by_the_fields_of_the_profile(harness: Harness, acme: Acme) -> None:
    harness.owners.decide = approve
    answer = await acme.ask(SALE)
    assert (answer["h"], answer["t"], answer["39"]) == (ANSWERED_TPDU.upper(), "0210", "00")
    assert await acme.ask(SALE | {"t": "0201"}) == answer
    assert (await acme.ask(SALE | {"4": "000000000999"}))["39"] == "26"
    assert (await acme.ask(SALE | {"41": "TERM0002"}))["38"] != answer["38"]
    assert len({command.command_key for command in harness.owners.submitted}) == 2


async def test_reversal_names_the_sale_without_a_retrieval_reference(harness: Harness, acme: Acme) -> None:
    await acme.ask(SALE)
    named = "0200" + "000123" + "1121103000" + "424242".zfill(11) + "0" * 11
    reversal = SALE | {"t": "0420", "11": "000124", "90": named}
    assert (await acme.ask(reversal))["39"] == "00"
    sale, reversed_ = harness.owners.submitted
    assert sale.command_key.hex() in reversed_.references[0]


async def test_increment_is_an_advice(harness: Harness, acme: Acme) -> None:
    operation = "OP01I"
    advice = SALE | {"t": "0120", "11": "000125", "39": "00", "63": operation}
    assert (await acme.ask(advice))["39"] == "00"
    (command,) = harness.owners.submitted
    assert isinstance(command, Advise)
    assert (command.increment, command.amount_minor) == (True, 12_34)
    assert (await acme.ask(SALE | {"11": "000126", "63": operation}))["39"] == "30"


async def test_echo_test_is_answered(acme: Acme) -> None:
    echo = {"h": TPDU.upper(), "t": "0800", "7": "1121103000", "11": "000127", "70": "301"}
    answer = await acme.ask(echo)
    assert (answer["h"], answer["t"], answer["39"], answer["70"]) == (
        ANSWERED_TPDU.upper(),
        "0810",
        "00",
        "301",
    )


def test_printed_error_is_that_of_a_wrong_place() -> None:
    text = fence(WIRE, HEADING, "toml")
    wrong = text.replace("at = 1, length = 4", "at = 8, length = 4")
    with pytest.raises(ProfileError) as failed:
        parse_profile(wrong, "acme.toml")
    assert str(failed.value) == fence(WIRE, HEADING, "text").strip()
