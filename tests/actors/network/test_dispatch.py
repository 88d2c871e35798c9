"""Messages are dispatched by their class; malformed ones get 30, and the third one ends the connection."""

from __future__ import annotations

import pytest

from engine.iso8583.acquirer import network_request
from engine.iso8583.message import Message
from engine.iso8583.profiles import ISO87_ASCII
from engine.limits import FRAME_BYTES_MAX
from tests.support.actors.network.support import Harness, request

UNDECODABLE = b"0100" + b"2" + b"0" * 15 + b"000"


@pytest.mark.parametrize("code", ["001", "002", "301"])
async def test_network_management_is_accepted(harness: Harness, code: str) -> None:
    async with harness.peer() as peer:
        answer = await peer.ask(network_request(code, "000007", 1_795_253_400_000))
    assert (answer.mti, answer.fields[39], answer.fields[11], answer.fields[70]) == (
        "0810",
        "00",
        "000007",
        code,
    )


@pytest.mark.parametrize("mti", ["0200", "0320", "0500", "0600"])
async def test_unsupported_function_gets_40(harness: Harness, mti: str) -> None:
    async with harness.peer() as peer:
        answers = [await peer.ask(request(stan, mti)) for stan in range(5)]
        assert {answer.fields[39] for answer in answers} == {"40"}
        assert (await peer.ask(request(9))).fields[39] == "00"
    assert harness.edge.counts.unsupported == 5


async def test_third_malformed_frame_ends_the_connection(harness: Harness) -> None:
    async with harness.peer() as peer:
        for _ in range(2):
            peer.writer.write(ISO87_ASCII.framing.frame(UNDECODABLE))
            assert (await peer.receive()) == Message("0110", {39: "30"})
        assert (await peer.ask(request())).fields[39] == "00"
        peer.writer.write(ISO87_ASCII.framing.frame(UNDECODABLE))
        assert (await peer.receive()) == Message("0110", {39: "30"})
        assert await peer.is_closed()
    assert harness.edge.counts.malformed == 3


async def test_frame_without_header_gets_no_answer(harness: Harness) -> None:
    async with harness.peer() as peer:
        peer.writer.write(
            ISO87_ASCII.framing.frame(b"x")
            + b"\x00\x00"
            + ISO87_ASCII.framing.frame(ISO87_ASCII.encode(Message("0110", {39: "00"})))
        )
        assert await peer.is_closed()
    assert harness.edge.counts.malformed == 3


async def test_oversized_frame_is_answered_and_skipped(harness: Harness) -> None:
    payload = ISO87_ASCII.encode(request()) + b"0" * FRAME_BYTES_MAX
    async with harness.peer() as peer:
        peer.writer.write(len(payload).to_bytes(2, "big") + payload)
        answer = await peer.receive()
        assert (answer.mti, answer.fields[39], answer.fields[11]) == ("0110", "30", "000123")
        assert (await peer.ask(request(7))).fields[39] == "00"


@pytest.mark.parametrize(("fault", "code"), [(RuntimeError, "96"), (MemoryError, "91")])
async def test_exception_in_the_edge_is_answered_and_keeps_the_connection(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, fault: type[Exception], code: str
) -> None:
    def faulty(*_arguments: object) -> Message:
        raise fault("4111111111111111")

    monkeypatch.setattr("actors.network.links.management.network_management", faulty)
    async with harness.peer() as peer:
        answer = await peer.ask(network_request("301", "000007", 0))
        assert answer.fields[39] == code
        assert (await peer.ask(request())).fields[39] == "00"
    assert harness.edge.counts.faults == 1
