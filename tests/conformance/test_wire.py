"""Wire cases that need no ledger: an independent ISO 8583 peer and the edge over TCP.

The owners are fakes of the test: they execute each command key once and answer repeats from memory.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from engine.replies import WireAnswer
from tests.support.actors.network.support import Harness, approve, until
from tests.support.conformance.peer import Document, Network, decode, encode, identity
from tests.support.engine.iso8583.messages import EXAMPLE


def purchase(stan: int = 123, /, **changes: str | None) -> Document:
    """An 0100 with this STAN; ``changes`` replace fields (``de4=…``) or, with ``None``, remove them."""
    document: dict[str, Any] = EXAMPLE | {"11": f"{stan:06d}", "37": f"632510{stan:06d}"}
    document |= {name.removeprefix("de"): value for name, value in changes.items()}
    return {field: value for field, value in document.items() if value is not None}


def repeated(document: Document) -> Document:
    return document | {"t": "0101"}


async def test_purchase_is_approved(harness: Harness) -> None:
    async with await Network.connect(harness.address) as network:
        request = purchase()
        answer = await network.ask(request)
    assert answer["t"] == "0110"
    assert answer["39"] == "00"
    assert len(answer["38"]) == 6
    for field in ("2", "3", "4", "7", "11", "12", "13", "32", "37", "41", "42", "49"):
        assert answer[field] == request[field]


async def test_answers_have_upper_case_bitmaps(harness: Harness) -> None:
    async with await Network.connect(harness.address) as network:
        network.send_bytes(encode(purchase(1), lower=True))
        lower = await network.receive_bytes()
        network.send_bytes(encode(purchase(1)))
        upper = await network.receive_bytes()
    assert lower == upper
    assert lower[4:20] == lower[4:20].upper()


# Cases 1 to 4: repeats


@pytest.mark.parametrize("decision", ["approve", "decline", "partial", "verify"])
async def test_case_1_repeat_gets_the_stored_answer(harness: Harness, decision: str) -> None:
    harness.owners.decide = {
        "approve": approve,
        "decline": lambda command: WireAnswer("51", command.id),
        "partial": lambda command: WireAnswer("10", command.id, "ABC123", 1_00),
        "verify": lambda command: WireAnswer("85", command.id, "ABC123"),
    }[decision]
    async with await Network.connect(harness.address) as network:
        network.send(purchase())
        first = await network.receive_bytes()
        for repeat in (purchase(), repeated(purchase())):
            network.send(repeat)
            assert await network.receive_bytes() == first
    async with await Network.connect(harness.address) as other_network:
        other_network.send(repeated(purchase()))
        assert await other_network.receive_bytes() == first
    assert len({command.command_key for command in harness.owners.submitted}) == 1


@pytest.mark.parametrize(
    "change",
    [{"de4": "000000009999"}, {"de43": "Other shop".ljust(38) + "IE"}, {"de18": "5812"}, {"de49": "840"}],
)
async def test_case_2_other_content_under_the_same_identity_gets_94(
    harness: Harness, change: dict[str, str]
) -> None:
    async with await Network.connect(harness.address) as network:
        first = await network.ask(purchase())
        assert (await network.ask(purchase(**change)))["39"] == "94"
        assert (await network.ask(repeated(purchase(**change))))["39"] == "94"
        assert await network.ask(purchase()) == first


async def test_case_3_duplicate_of_an_open_request_gets_the_same_answer(harness: Harness) -> None:
    harness.owners.gate.clear()
    async with await Network.connect(harness.address) as network:
        network.send(purchase())
        network.send(repeated(purchase()))
        await until(lambda: len(harness.owners.submitted) == 2)
        harness.owners.gate.set()
        assert await network.receive_bytes() == await network.receive_bytes()


@pytest.mark.parametrize("change", [{"de7": "1122103000"}, {"de37": "632610000123"}, {"de32": "424243"}])
async def test_case_4_reused_stan_is_a_new_transaction(harness: Harness, change: dict[str, str]) -> None:
    async with await Network.connect(harness.address) as network:
        await network.ask(purchase())
        assert (await network.ask(purchase(**change)))["39"] == "00"
    assert len({command.command_key for command in harness.owners.submitted}) == 2


# Interleaving


async def test_answers_arrive_in_the_order_of_decisions(harness: Harness) -> None:
    harness.owners.gates = {f"{stan:06d}": asyncio.Event() for stan in range(40)}
    order = list(harness.owners.gates)
    random.Random(8583).shuffle(order)
    async with await Network.connect(harness.address) as network:
        requests = [purchase(stan) for stan in range(40)]
        for request in requests:
            network.send(request)
        for stan in order:
            harness.owners.gates[stan].set()
            answer = await network.receive()
            assert answer["11"] == stan
            assert identity(answer) == identity(requests[int(stan)])


async def test_each_connection_gets_its_own_answers(harness: Harness) -> None:
    async def exchange(acquirer: int) -> None:
        async with await Network.connect(harness.address) as network:
            for stan in range(30):
                network.send(purchase(stan, de32=f"{acquirer:06d}"))
            answers = [await network.receive() for _ in range(30)]
            assert {answer["32"] for answer in answers} == {f"{acquirer:06d}"}
            assert {answer["11"] for answer in answers} == {f"{stan:06d}" for stan in range(30)}

    await asyncio.gather(*(exchange(acquirer) for acquirer in range(20)))


# Network management


@pytest.mark.parametrize("code", ["001", "002", "301"])
async def test_network_management_requests_are_accepted(harness: Harness, code: str) -> None:
    async with await Network.connect(harness.address) as network:
        answer = await network.ask({"t": "0800", "7": "1121103000", "11": "000007", "70": code})
        assert {field: answer[field] for field in ("t", "7", "11", "39", "70")} == {
            "t": "0810",
            "7": "1121103000",
            "11": "000007",
            "39": "00",
            "70": code,
        }
        assert (await network.ask(purchase()))["39"] == "00"


# Malformed input

PAYLOAD = encode(purchase())
MALFORMED = {
    "cut in the last field": PAYLOAD[:-1],
    "cut in the middle": PAYLOAD[:60],
    "cut behind the bitmap": PAYLOAD[:20],
    "one byte too many": PAYLOAD + b"0",
    "not ASCII": PAYLOAD.replace(b"Corner", b"Corn\xe9r"),
    "a control character": PAYLOAD.replace(b"Corner", b"Corn\x00r"),
    "a length that is no number": PAYLOAD[:20] + b"x6" + PAYLOAD[22:],
    "a PAN that is too long": PAYLOAD[:20] + b"99" + PAYLOAD[22:],
    "a bitmap that is not hexadecimal": PAYLOAD[:4] + b"G" + PAYLOAD[5:],
    "a tertiary bitmap": b"0100" + b"C" + b"0" * 15 + b"8" + b"0" * 15 + b"16" + b"4" * 16,
    "nothing but a type": b"0100",
}
NO_HEADER = {
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
    "binary type": b"\x01\x00" + PAYLOAD[4:],
    "binary zeros": bytes(64),
    "a response": encode(purchase() | {"t": "0110"}),
    "another version": encode(purchase() | {"t": "1100"}),
    "one byte": b"0",
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_third_undecodable_message_ends_the_connection(harness: Harness, name: str) -> None:
    async with await Network.connect(harness.address) as network:
        for _ in range(3):
            network.send_bytes(MALFORMED[name])
            answer = await network.receive()
            assert (answer["t"], answer["39"]) == ("0110", "30")
            assert not {"2", "14", "48"} & set(answer)
        assert await network.closed()
    assert harness.owners.submitted == []
    assert harness.edge.counts.malformed == 3


@pytest.mark.parametrize("name", NO_HEADER)
async def test_frames_without_header_end_the_connection_unanswered(harness: Harness, name: str) -> None:
    async with await Network.connect(harness.address) as network:
        for _ in range(3):
            network.send_bytes(NO_HEADER[name])
        assert await network.closed()
    assert harness.edge.counts.malformed == 3


@pytest.mark.parametrize("length", [0, 4097, 65535])
async def test_third_bad_length_ends_the_connection(harness: Harness, length: int) -> None:
    async with await Network.connect(harness.address) as network:
        for _ in range(3):
            network.writer.write(length.to_bytes(2, "big") + b"\xff" * length)
        assert await network.closed()
    assert harness.edge.counts.malformed == 3


async def test_answer_to_a_damaged_message_has_its_references(harness: Harness) -> None:
    async with await Network.connect(harness.address) as network:
        network.send_bytes(PAYLOAD.replace(b"Corner", b"Corn\xe9r"))
        answer = await network.receive()
    assert identity(answer) == identity(purchase())


@pytest.mark.parametrize("field", ["2", "3", "4", "7", "11", "18", "32", "37", "43", "49"])
async def test_missing_field_gets_30_and_keeps_the_connection(harness: Harness, field: str) -> None:
    async with await Network.connect(harness.address) as network:
        for _ in range(5):
            assert (await network.ask(purchase(**{f"de{field}": None})))["39"] == "30"
        assert (await network.ask(purchase()))["39"] == "00"


async def test_damaged_message_does_not_affect_the_next_one(harness: Harness) -> None:
    chance = random.Random(1987)
    for _ in range(150):
        damaged = bytearray(PAYLOAD)
        for _ in range(chance.randint(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        async with await Network.connect(harness.address) as network:
            network.send_bytes(bytes(damaged[: chance.randint(1, len(damaged))]))
            network.send(purchase(5))
            answers = [await network.receive()]
            while answers[-1].get("11") != "000005":
                answers.append(await network.receive())
            assert answers[-1]["39"] in {"00", "94"}
    assert harness.edge.counts.faults == 0


# Slow writers


async def test_message_sent_byte_by_byte_is_answered(harness: Harness) -> None:
    stream = len(PAYLOAD).to_bytes(2, "big") + PAYLOAD
    async with (
        await Network.connect(harness.address) as network,
        await Network.connect(harness.address) as other,
    ):
        for byte in stream[:-1]:
            network.writer.write(bytes([byte]))
            await network.writer.drain()
        assert (await other.ask(purchase(9)))["39"] == "00"
        network.writer.write(stream[-1:])
        assert (await network.receive())["39"] == "00"


async def test_several_frames_in_one_write_are_answered(harness: Harness) -> None:
    async with await Network.connect(harness.address) as network:
        payloads = [encode(purchase(stan)) for stan in range(20)]
        stream = b"".join(len(payload).to_bytes(2, "big") + payload for payload in payloads)
        for cut in (stream[:1], stream[1:700], stream[700:]):
            network.writer.write(cut)
            await network.writer.drain()
        assert {(await network.receive())["11"] for _ in range(20)} == {f"{stan:06d}" for stan in range(20)}


def test_peer_reads_its_own_messages() -> None:
    assert decode(encode(purchase(), lower=True))["4"] == purchase()["4"]
