"""Message flows: requests have a deadline; other messages are stored and forwarded."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from actors.ids import new_id
from actors.network.acquirer_session import SessionLostError
from actors.network.simulated_network import SimulatedNetwork
from actors.network.simulation_store import SaleIncrease
from engine.iso8583.content import Advice, AuthorizationRequest, ReversalNotice
from engine.iso8583.content_reader import read
from engine.iso8583.message import Message
from engine.iso8583.respond import refusal
from engine.simulation import (
    ClearingRequest,
    FollowUpRequest,
    ForcePostRequest,
    IncrementRequest,
    ReversalRequest,
    SaleState,
    SimulationRequest,
)
from tests.support.actors.network.fakes import FakeTransport, MemorySimulationStore, card_lookup
from tests.support.actors.network.rows import TENANT_ID
from tests.support.actors.network.simulations import NOW_MS, original, spend
from tests.support.actors.network.support import CARD_ID, until

pytestmark = pytest.mark.virtual_time

SALE = original()
SALE_ID = SALE.request.simulation_id


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses between repeats."""
    monkeypatch.setattr("actors.network.message_flows.FORWARD_SECONDS_MIN", 0.001)


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


async def test_spend_without_a_connection_fails() -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    transport.up = False
    network = SimulatedNetwork(transport, store, card_lookup())
    (acceptance,) = await network.accept([spend()])
    assert acceptance.stan is not None
    await until(lambda: store.changes)
    failure = store.changes[0].failure
    assert failure is not None
    assert (store.states, failure.stage, failure.code) == (["failed"], "post_build", "not_connected")
    assert transport.sent == []


async def test_request_is_repeated_after_a_lost_connection() -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup())
    await network.accept([spend()])
    await until(lambda: len(transport.sent) == 1)
    transport.answers[0].set_exception(SessionLostError())
    await until(lambda: len(transport.sent) == 2)
    assert [message.mti for message in transport.sent] == ["0100", "0101"]
    assert transport.sent[0].fields == transport.sent[1].fields
    transport.answer(1, "51")
    await until(lambda: store.states == ["sent", "decided"])


async def test_request_fails_if_the_connection_stays_lost() -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup())
    await network.accept([spend()])
    await until(lambda: len(transport.sent) == 1)
    transport.up = False
    transport.answers[0].set_exception(SessionLostError())
    await until(lambda: store.states == ["sent", "failed"])
    assert store.changes[1].failure is not None
    assert store.changes[1].failure.code == "connection_lost"
    await network.stop()


async def test_late_decline_decides_a_failed_spend() -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup(), timeout_ms=20)
    await network.accept([spend()])
    await until(lambda: store.states == ["sent", "failed"])
    assert store.changes[1].failure is not None
    assert store.changes[1].failure.code == "no_answer"
    transport.answer(0, "51")
    await until(lambda: store.states == ["sent", "failed", "decided"])
    assert store.changes[2].response_code == "51"
    await network.stop()


async def test_missing_answer_is_forgotten_after_the_late_limit() -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup(), timeout_ms=20, late_seconds=0.02)
    await network.accept([spend()])
    await until(lambda: transport.forgotten)
    assert transport.forgotten[0] == transport.sent[0]
    transport.answers[0].set_exception(SessionLostError())
    await asyncio.sleep(0)
    assert store.states == ["sent", "failed"]
    await network.stop()


async def test_request_without_an_answer_is_reversed() -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup(), timeout_ms=20)
    await network.accept([spend()])
    await until(lambda: len(transport.sent) == 2)
    request, reversal = transport.sent
    assert (request.mti, reversal.mti) == ("0100", "0420")
    assert all(request.fields[number] == reversal.fields[number] for number in (7, 11, 32, 37))
    content = read(reversal)
    assert isinstance(content, ReversalNotice)
    assert (len(content.references), content.remaining_minor) == (2, None)
    await network.stop()


async def test_late_approval_leaves_the_spend_failed() -> None:
    """Its reversal is on its way."""
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup(), timeout_ms=20)
    await network.accept([spend()])
    await until(lambda: len(transport.sent) == 2)
    transport.answer(0, "00")
    transport.answer(1, "00")
    await until(lambda: not network.is_active(store.simulations[0]))
    assert store.states == ["sent", "failed"]
    await network.stop()


async def test_request_that_was_not_sent_is_not_reversed() -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    transport.up = False
    network = SimulatedNetwork(transport, store, card_lookup())
    await network.accept([spend()])
    await until(lambda: store.states == ["failed"])
    transport.up = True
    await asyncio.sleep(0.01)
    assert transport.sent == []
    await network.stop()


async def test_increment_without_an_answer_is_reversed_to_the_amount_before() -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup(), timeout_ms=20)
    await network.accept([increment()])
    await until(lambda: len(transport.sent) == 2)
    content = read(transport.sent[1])
    assert isinstance(content, ReversalNotice)
    assert (transport.sent[1].mti, content.remaining_minor) == ("0420", 12_34)
    assert transport.sent[1].fields[90] == transport.sent[0].fields[90]
    await network.stop()


async def test_approved_amounts_are_added_to_their_sale() -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup())
    sale, refund = spend(), spend(kind="refund")
    await network.accept([sale, refund, spend(), increment()])
    await until(lambda: len(transport.sent) == 4)
    for number, code in enumerate(("00", "00", "51", "00")):
        transport.answer(number, code)
    await until(lambda: store.states.count("decided") == 4)
    added = [change.increase for change in store.changes if change.state == "decided"]
    assert added == [SaleIncrease(sale.simulation_id, 12_34), None, None, SaleIncrease(SALE_ID, 5_00)]


# Stored and forwarded messages ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "mti"), [(reversal(), "0420"), (clearing(), "0220"), (force_post(), "0220")]
)
async def test_follow_up_is_repeated_until_it_is_answered(request_: FollowUpRequest, mti: str) -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup(), timeout_ms=20)
    await network.accept([request_])
    await until(lambda: len(transport.sent) == 1)
    transport.answers[0].set_exception(SessionLostError())
    await until(lambda: len(transport.sent) == 2)
    transport.answer(1, "91")
    await until(lambda: len(transport.sent) == 3)
    transport.answer(2, "96")
    await until(lambda: len(transport.sent) == 5)  # the fourth got no answer
    transport.answer(4, "00")
    await until(lambda: store.states == ["sent", "decided"])
    assert [message.mti for message in transport.sent] == [mti] + [f"{mti[:3]}1"] * 4
    assert all(message.fields == transport.sent[0].fields for message in transport.sent)
    assert store.changes[1].approved_minor == store.simulations[0].request.amount_minor
    assert store.changes[1].increase is None
    await network.stop()


async def test_follow_up_waits_for_a_connection() -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    transport.up = False
    network = SimulatedNetwork(transport, store, card_lookup())
    await network.accept([clearing()])
    await asyncio.sleep(0.005)
    transport.up = True
    await until(lambda: transport.sent)
    assert [message.mti for message in transport.sent] == ["0220"]
    transport.answer(0, "14")
    await until(lambda: store.states == ["sent", "decided"])
    assert (store.changes[1].response_code, store.changes[1].approved_minor) == ("14", None)


async def test_follow_up_fails_after_the_last_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.network.message_flows.FORWARD_ATTEMPTS", 2)
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup(), timeout_ms=5)
    await network.accept([reversal()])
    await until(lambda: store.states == ["sent", "failed"])
    assert len(transport.sent) == 2


async def test_resume_repeats_unanswered_follow_ups() -> None:
    store = MemorySimulationStore()
    before = SimulatedNetwork(FakeTransport(), store, card_lookup())
    await before.accept([clearing(), force_post()])
    await before.stop()
    transport = FakeTransport()
    after = SimulatedNetwork(transport, store, card_lookup())
    assert await after.resume() == 2
    await until(lambda: len(transport.sent) == 2)
    assert {message.mti for message in transport.sent} == {"0221"}
    await after.stop()


# Network stand-in -------------------------------------------------------------------------------------------


def advised(transport: FakeTransport) -> Message | None:
    return next((message for message in transport.sent if message.mti == "0120"), None)


@pytest.mark.parametrize("platform", ["91", "96", None])
async def test_network_stands_in_without_a_decision_in_time(
    platform: str | None,
) -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup(), timeout_ms=20 if platform is None else 60_000)
    request = spend(scenario="force_stip_timeout")
    await network.accept([request])
    await until(lambda: len(transport.sent) == 1)
    if platform is not None:
        transport.answer(0, platform)
    await until(lambda: advised(transport))
    message = transport.sent[1]
    content = read(message)
    assert isinstance(content, Advice)
    assert (content.approved, content.stand_in, content.purchase.amount_minor) == (True, True, 12_34)
    requested = read(transport.sent[0])
    assert isinstance(requested, AuthorizationRequest)
    assert requested.scenario == "force_stip_timeout"
    assert content.purchase.wire == requested.purchase.wire
    answer = refusal(message, "00")
    transport.answers[1].set_result(answer)
    await until(lambda: store.states == ["sent", "decided"])
    decided = store.changes[1]
    assert (decided.response_code, decided.approval_code) == ("00", message.fields[38])
    assert (decided.approved_minor, decided.increase) == (12_34, SaleIncrease(request.simulation_id, 12_34))
    if platform is None:
        transport.answer(0, "51")
        await asyncio.sleep(0)
    assert store.states == ["sent", "decided"]
    assert not [message for message in transport.sent if message.mti == "0420"]
    await network.stop()


@pytest.mark.parametrize(("code", "approved"), [("00", True), ("51", False)])
async def test_decision_in_time_prevents_stand_in(code: str, approved: bool) -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup(), timeout_ms=60_000)
    await network.accept([spend(scenario="force_stip_timeout")])
    await until(lambda: len(transport.sent) == 1)
    transport.answer(0, code)
    await until(lambda: store.states == ["sent", "decided"])
    assert (store.changes[1].response_code, store.changes[1].increase is not None) == (code, approved)
    assert not advised(transport)
    await network.stop()


async def test_network_does_not_stand_in_without_a_connection() -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    transport.up = False
    network = SimulatedNetwork(transport, store, card_lookup())
    await network.accept([spend(scenario="force_stip_timeout")])
    await until(lambda: store.states == ["failed"])


# Accepting --------------------------------------------------------------------------------------------------


async def test_follow_up_with_a_known_id_is_not_sent_again() -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup())
    request = clearing()
    (first,) = await network.accept([request])
    assert await network.accept([request]) == [first]
    await until(lambda: transport.sent)
    await asyncio.sleep(0.005)
    assert (len(transport.sent), len(store.simulations)) == (1, 1)
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
async def test_refused_follow_up_has_no_references(request_: FollowUpRequest, code: str) -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    store.sales[SALE_ID] = SaleState(0)
    network = SimulatedNetwork(transport, store, card_lookup())
    (acceptance,) = await network.accept([request_])
    assert (acceptance.stan, acceptance.rrn, acceptance.network_txn_id) == (None, None, None)
    failure = store.simulations[0].failure
    assert failure is not None
    assert (failure.stage, failure.code) == ("pre_build", code)
    assert transport.sent == []


async def test_acceptances_have_the_order_of_the_requests() -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup())
    requests: list[SimulationRequest] = [clearing(), spend(), force_post(), spend(), increment()]
    acceptances = await network.accept(requests)
    assert [each.simulation_id for each in acceptances] == [each.simulation_id for each in requests]
    assert acceptances[0].network_txn_id == acceptances[4].network_txn_id == SALE.network_txn_id
    assert acceptances[2].network_txn_id != SALE.network_txn_id
    await network.stop()


async def test_force_post_that_cannot_be_encoded_fails() -> None:
    transport, store = FakeTransport(), MemorySimulationStore()
    network = SimulatedNetwork(transport, store, card_lookup())
    await network.accept([msgspec.structs.replace(force_post(), mcc="54111")])
    assert store.states == ["failed"]
    assert transport.sent == []
