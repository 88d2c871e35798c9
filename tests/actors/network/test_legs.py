"""What becomes of a message on the wire: requests have a deadline, everything else must arrive."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from actors.ids import new_id
from actors.network.session import SessionLostError
from actors.network.simulated import SimulatedNetwork
from actors.network.simulations import Addition
from engine.iso8583.content import Advice, AuthorizationRequest, ReversalNotice, read
from engine.iso8583.message import Message
from engine.iso8583.respond import refusal
from engine.simulation import (
    ClearingRequest,
    FollowUpRequest,
    ForcePostRequest,
    IncrementRequest,
    ReversalRequest,
    SaleBook,
    SimulationRequest,
)
from tests.actors.network.fakes import FakeWire, MemoryBook, plastics
from tests.actors.network.rows import TENANT_ID
from tests.actors.network.simulations import NOW_MS, original, spend
from tests.actors.network.support import CARD_ID, until

SALE = original()
SALE_ID = SALE.request.simulation_id


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between repeats are for networks, not for tests."""
    monkeypatch.setattr("actors.network.legs.FORWARD_SECONDS_MIN", 0.001)


def increment() -> IncrementRequest:
    return IncrementRequest(simulation_id=new_id(0xA7), accepted_ms=NOW_MS, original=SALE, amount_minor=5_00)


def reversal() -> ReversalRequest:
    return ReversalRequest(simulation_id=new_id(0xA7), accepted_ms=NOW_MS, original=SALE)


def clearing() -> ClearingRequest:
    return ClearingRequest(simulation_id=new_id(0xA7), accepted_ms=NOW_MS, original=SALE)


def force_post() -> ForcePostRequest:
    return ForcePostRequest(
        simulation_id=new_id(0xA7), accepted_ms=NOW_MS, tenant_id=TENANT_ID, card_id=CARD_ID,
        amount_minor=7_00, currency="EUR", mcc="5411", merchant_name="Corner shop", merchant_country="IE",
    )  # fmt: skip


# Requests ---------------------------------------------------------------------------------------------------


async def test_no_connection() -> None:
    wire, book = FakeWire(), MemoryBook()
    wire.up = False
    network = SimulatedNetwork(wire, book, plastics())
    (acceptance,) = await network.accept([spend()])
    assert acceptance.stan is not None
    await until(lambda: book.moves)
    failure = book.moves[0].failure
    assert failure is not None
    assert (book.states, failure.stage, failure.code) == (["failed"], "post_build", "not_connected")
    assert wire.sent == []


async def test_a_lost_connection_is_repeated_in_time() -> None:
    wire, book = FakeWire(), MemoryBook()
    network = SimulatedNetwork(wire, book, plastics())
    await network.accept([spend()])
    await until(lambda: len(wire.sent) == 1)
    wire.answers[0].set_exception(SessionLostError())
    await until(lambda: len(wire.sent) == 2)
    assert [message.mti for message in wire.sent] == ["0100", "0101"]
    assert wire.sent[0].fields == wire.sent[1].fields
    wire.answer(1, "51")
    await until(lambda: book.states == ["sent", "decided"])


async def test_a_connection_that_does_not_come_back() -> None:
    wire, book = FakeWire(), MemoryBook()
    network = SimulatedNetwork(wire, book, plastics())
    await network.accept([spend()])
    await until(lambda: len(wire.sent) == 1)
    wire.up = False
    wire.answers[0].set_exception(SessionLostError())
    await until(lambda: book.states == ["sent", "failed"])
    assert book.moves[1].failure is not None
    assert book.moves[1].failure.code == "connection_lost"
    await network.stop()


async def test_a_late_answer_decides_after_all() -> None:
    wire, book = FakeWire(), MemoryBook()
    network = SimulatedNetwork(wire, book, plastics(), timeout_ms=20)
    await network.accept([spend()])
    await until(lambda: book.states == ["sent", "failed"])
    assert book.moves[1].failure is not None
    assert book.moves[1].failure.code == "no_answer"
    wire.answer(0, "51")
    await until(lambda: book.states == ["sent", "failed", "decided"])
    assert book.moves[2].response_code == "51"
    await network.stop()


async def test_an_answer_that_never_comes_is_forgotten() -> None:
    wire, book = FakeWire(), MemoryBook()
    network = SimulatedNetwork(wire, book, plastics(), timeout_ms=20, late_seconds=0.02)
    await network.accept([spend()])
    await until(lambda: wire.forgotten)
    assert wire.forgotten[0] == wire.sent[0]
    wire.answers[0].set_exception(SessionLostError())
    await asyncio.sleep(0)
    assert book.states == ["sent", "failed"]
    await network.stop()


async def test_what_got_no_answer_is_reversed_under_its_own_references() -> None:
    wire, book = FakeWire(), MemoryBook()
    network = SimulatedNetwork(wire, book, plastics(), timeout_ms=20)
    await network.accept([spend()])
    await until(lambda: len(wire.sent) == 2)
    request, reversal = wire.sent
    assert (request.mti, reversal.mti) == ("0100", "0420")
    assert all(request.fields[number] == reversal.fields[number] for number in (7, 11, 32, 37))
    content = read(reversal)
    assert isinstance(content, ReversalNotice)
    assert (len(content.references), content.remaining_minor) == (2, None)
    # The late approval decides the row, and nothing of it will be presented.
    wire.answer(0, "00")
    await until(lambda: book.states == ["sent", "failed", "decided"])
    assert book.moves[2].addition is None
    await network.stop()


async def test_what_was_never_sent_is_not_reversed() -> None:
    wire, book = FakeWire(), MemoryBook()
    wire.up = False
    network = SimulatedNetwork(wire, book, plastics())
    await network.accept([spend()])
    await until(lambda: book.states == ["failed"])
    wire.up = True
    await asyncio.sleep(0.01)
    assert wire.sent == []
    await network.stop()


async def test_an_increment_without_an_answer_leaves_what_was_before_it() -> None:
    wire, book = FakeWire(), MemoryBook()
    network = SimulatedNetwork(wire, book, plastics(), timeout_ms=20)
    await network.accept([increment()])
    await until(lambda: len(wire.sent) == 2)
    content = read(wire.sent[1])
    assert isinstance(content, ReversalNotice)
    assert (wire.sent[1].mti, content.remaining_minor) == ("0420", 12_34)
    assert wire.sent[1].fields[90] == wire.sent[0].fields[90]
    await network.stop()


async def test_approvals_are_added_to_their_sale() -> None:
    wire, book = FakeWire(), MemoryBook()
    network = SimulatedNetwork(wire, book, plastics())
    sale, refund = spend(), spend(kind="refund")
    await network.accept([sale, refund, spend(), increment()])
    await until(lambda: len(wire.sent) == 4)
    for number, code in enumerate(("00", "00", "51", "00")):
        wire.answer(number, code)
    await until(lambda: book.states.count("decided") == 4)
    added = [move.addition for move in book.moves if move.state == "decided"]
    assert added == [Addition(sale.simulation_id, 12_34), None, None, Addition(SALE_ID, 5_00)]


# What must arrive -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "mti"), [(reversal(), "0420"), (clearing(), "0220"), (force_post(), "0220")]
)
async def test_it_is_repeated_until_it_is_answered(request_: FollowUpRequest, mti: str) -> None:
    wire, book = FakeWire(), MemoryBook()
    network = SimulatedNetwork(wire, book, plastics(), timeout_ms=20)
    await network.accept([request_])
    await until(lambda: len(wire.sent) == 1)
    wire.answers[0].set_exception(SessionLostError())
    await until(lambda: len(wire.sent) == 2)
    wire.answer(1, "91")
    await until(lambda: len(wire.sent) == 3)
    wire.answer(2, "96")
    await until(lambda: len(wire.sent) == 5)  # the fourth got no answer
    wire.answer(4, "00")
    await until(lambda: book.states == ["sent", "decided"])
    assert [message.mti for message in wire.sent] == [mti] + [f"{mti[:3]}1"] * 4
    assert all(message.fields == wire.sent[0].fields for message in wire.sent)
    assert book.moves[1].approved_minor == book.openings[0].request.amount_minor
    assert book.moves[1].addition is None
    await network.stop()


async def test_it_waits_for_a_connection() -> None:
    wire, book = FakeWire(), MemoryBook()
    wire.up = False
    network = SimulatedNetwork(wire, book, plastics())
    await network.accept([clearing()])
    await asyncio.sleep(0.005)
    wire.up = True
    await until(lambda: wire.sent)
    assert [message.mti for message in wire.sent] == ["0220"]
    wire.answer(0, "14")
    await until(lambda: book.states == ["sent", "decided"])
    assert (book.moves[1].response_code, book.moves[1].approved_minor) == ("14", None)


async def test_it_is_given_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.network.legs.FORWARD_ATTEMPTS", 2)
    wire, book = FakeWire(), MemoryBook()
    network = SimulatedNetwork(wire, book, plastics(), timeout_ms=5)
    await network.accept([reversal()])
    await until(lambda: book.states == ["sent", "failed"])
    assert len(wire.sent) == 2


async def test_what_an_earlier_life_left_is_repeated() -> None:
    book = MemoryBook()
    before = SimulatedNetwork(FakeWire(), book, plastics())
    await before.accept([clearing(), force_post()])
    await before.stop()
    wire = FakeWire()
    after = SimulatedNetwork(wire, book, plastics())
    assert await after.resume() == 2
    await until(lambda: len(wire.sent) == 2)
    assert {message.mti for message in wire.sent} == {"0221"}
    await after.stop()


# Standing in ------------------------------------------------------------------------------------------------


def advised(wire: FakeWire) -> Message | None:
    return next((message for message in wire.sent if message.mti == "0120"), None)


@pytest.mark.parametrize("platform", ["91", "96", None])
async def test_the_network_stands_in_when_the_platform_gives_no_decision_in_time(
    platform: str | None,
) -> None:
    wire, book = FakeWire(), MemoryBook()
    network = SimulatedNetwork(wire, book, plastics(), timeout_ms=20 if platform is None else 60_000)
    request = spend(scenario="force_stip_timeout")
    await network.accept([request])
    await until(lambda: len(wire.sent) == 1)
    if platform is not None:
        wire.answer(0, platform)
    await until(lambda: advised(wire))
    message = wire.sent[1]
    content = read(message)
    assert isinstance(content, Advice)
    assert (content.approved, content.stand_in, content.purchase.amount_minor) == (True, True, 12_34)
    asked = read(wire.sent[0])
    assert isinstance(asked, AuthorizationRequest)
    assert asked.scenario == "force_stip_timeout"
    assert content.purchase.wire == asked.purchase.wire
    answer = refusal(message, "00")
    wire.answers[1].set_result(answer)
    await until(lambda: book.states == ["sent", "decided"])
    decided = book.moves[1]
    assert (decided.response_code, decided.approval_code) == ("00", message.fields[38])
    assert (decided.approved_minor, decided.addition) == (12_34, Addition(request.simulation_id, 12_34))
    if platform is None:
        wire.answer(0, "51")
        await asyncio.sleep(0)
    assert book.states == ["sent", "decided"]
    assert not [message for message in wire.sent if message.mti == "0420"]
    await network.stop()


@pytest.mark.parametrize(("code", "approved"), [("00", True), ("51", False)])
async def test_a_decision_that_comes_in_time_is_taken_as_it_is(code: str, approved: bool) -> None:
    wire, book = FakeWire(), MemoryBook()
    network = SimulatedNetwork(wire, book, plastics(), timeout_ms=60_000)
    await network.accept([spend(scenario="force_stip_timeout")])
    await until(lambda: len(wire.sent) == 1)
    wire.answer(0, code)
    await until(lambda: book.states == ["sent", "decided"])
    assert (book.moves[1].response_code, book.moves[1].addition is not None) == (code, approved)
    assert not advised(wire)
    await network.stop()


async def test_no_stand_in_without_a_connection() -> None:
    wire, book = FakeWire(), MemoryBook()
    wire.up = False
    network = SimulatedNetwork(wire, book, plastics())
    await network.accept([spend(scenario="force_stip_timeout")])
    await until(lambda: book.states == ["failed"])


# Accepting --------------------------------------------------------------------------------------------------


async def test_a_follow_up_is_started_once() -> None:
    wire, book = FakeWire(), MemoryBook()
    network = SimulatedNetwork(wire, book, plastics())
    request = clearing()
    (first,) = await network.accept([request])
    assert await network.accept([request]) == [first]
    await until(lambda: wire.sent)
    await asyncio.sleep(0.005)
    assert (len(wire.sent), len(book.openings)) == (1, 1)
    await network.stop()


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (ReversalRequest(simulation_id=new_id(), accepted_ms=1, original=SALE), "nothing_left"),
        (ClearingRequest(simulation_id=new_id(), accepted_ms=1, original=SALE), "nothing_left"),
        (
            ClearingRequest(simulation_id=new_id(), accepted_ms=1, original=SALE, amount_minor=10**12),
            "amount_too_large",
        ),
        (
            ReversalRequest(simulation_id=new_id(), accepted_ms=1, original=original(card_id=new_id())),
            "card_unreadable",
        ),
    ],
)
async def test_follow_ups_that_are_refused(request_: FollowUpRequest, code: str) -> None:
    wire, book = FakeWire(), MemoryBook()
    book.books[SALE_ID] = SaleBook(0)
    network = SimulatedNetwork(wire, book, plastics())
    (acceptance,) = await network.accept([request_])
    assert (acceptance.stan, acceptance.rrn, acceptance.network_txn_id) == (None, None, None)
    failure = book.openings[0].failure
    assert failure is not None
    assert (failure.stage, failure.code) == ("pre_build", code)
    assert wire.sent == []


async def test_the_order_of_acceptances() -> None:
    wire, book = FakeWire(), MemoryBook()
    network = SimulatedNetwork(wire, book, plastics())
    requests: list[SimulationRequest] = [clearing(), spend(), force_post(), spend(), increment()]
    acceptances = await network.accept(requests)
    assert [each.simulation_id for each in acceptances] == [each.simulation_id for each in requests]
    assert acceptances[0].network_txn_id == acceptances[4].network_txn_id == SALE.network_txn_id
    assert acceptances[2].network_txn_id != SALE.network_txn_id
    await network.stop()


async def test_a_force_post_that_fits_no_field() -> None:
    wire, book = FakeWire(), MemoryBook()
    network = SimulatedNetwork(wire, book, plastics())
    await network.accept([msgspec.structs.replace(force_post(), mcc="54111")])
    assert book.states == ["failed"]
    assert wire.sent == []
