"""The same row always gives the same message."""

from __future__ import annotations

from typing import Any

import pytest

from actors.network.messages import arn, message_of, network_txn_id, rrn, wire_stan
from actors.network.simulation_store import Simulation
from engine.iso8583.acquirer_follow_ups import stand_in_advice, timeout_reversal
from engine.iso8583.content import Presentment, ReversalNotice
from engine.iso8583.content_reader import read
from engine.iso8583.identity import fingerprint
from engine.iso8583.profiles import ISO87_ASCII
from engine.pan import luhn_digit
from engine.simulation import (
    ClearingRequest,
    IncrementRequest,
    ReversalRequest,
    SaleFollowUpRequest,
    SaleState,
    apply_follow_up,
)
from tests.support.actors.network.simulations import NOW_MS, original, spend
from tests.support.actors.network.support import CREDENTIALS

CHILD: dict[str, Any] = {"simulation_id": "01900000-0000-7000-8000-0000000001a7", "accepted_ms": NOW_MS}


def row(request: SaleFollowUpRequest) -> Simulation:
    applied = apply_follow_up(request, SaleState(12_34, 1))
    assert applied is not None
    sale = request.original
    return Simulation(
        request=applied.record,
        original=sale,
        stan="000777",
        rrn=rrn("000777", NOW_MS),
        network_txn_id=sale.network_txn_id,
    )


def test_wire_stan_wraps_around() -> None:
    assert [wire_stan(serial) for serial in (0, 999_998, 999_999, 1_000_000)] == [
        "000001",
        "999999",
        "000001",
        "000002",
    ]
    assert network_txn_id(7) == "SN0000000000007"


def test_arn_is_derived_from_the_transaction_id() -> None:
    number = arn("SN0000000000122")
    assert number == arn("SN0000000000122") != arn("SN0000000000123")
    assert (len(number), number[:7], number[-1]) == (23, "7424242", luhn_digit(number[:-1]))
    assert len(arn("")) == len(arn("9" * 40)) == 23


def test_spend_is_dated_by_its_acceptance() -> None:
    simulation = Simulation(request=spend(), stan="000001", rrn=rrn("000001", NOW_MS), network_txn_id="SN1")
    message = message_of(simulation, CREDENTIALS)
    assert (message.mti, message.fields[7], message.fields[37]) == ("0100", "1121093000", simulation.rrn)


@pytest.mark.parametrize(
    ("changes", "entry", "track", "chip"),
    [
        ({}, "00", None, False),
        ({"entry_mode": "manual"}, "01", None, False),
        ({"entry_mode": "magstripe"}, "90", CREDENTIALS.track_2, False),
        ({"entry_mode": "chip"}, "05", CREDENTIALS.chip_track_2, True),
        ({"entry_mode": "contactless"}, "07", CREDENTIALS.chip_track_2, True),
        ({"entry_mode": "chip", "channel": "atm"}, "05", CREDENTIALS.chip_track_2, True),
        ({"entry_mode": "chip", "kind": "refund"}, "05", CREDENTIALS.chip_track_2, True),
        ({"channel": "ecommerce"}, "81", None, False),
        ({"entry_mode": "chip", "channel": "ecommerce"}, "05", None, False),
        ({"entry_mode": "chip", "mit": True}, "10", None, False),
    ],
)
def test_spend_has_the_data_that_a_terminal_reads_in_its_entry_mode(
    changes: dict[str, Any], entry: str, track: str | None, chip: bool
) -> None:
    request = spend(**changes)
    simulation = Simulation(request=request, stan="000001", rrn=rrn("000001", NOW_MS), network_txn_id="SN1")
    message = message_of(simulation, CREDENTIALS)
    assert (message.fields[22][:2], message.fields.get(35)) == (entry, track)
    assert (55 in message.fields) == chip
    rebuilt = message_of(simulation, CREDENTIALS)
    assert ISO87_ASCII.encode(rebuilt) == ISO87_ASCII.encode(message)
    for later in (timeout_reversal(message), stand_in_advice(message, "000001")):
        assert not {23, 35, 52, 55} & set(later.fields)
        assert later.fields[22] == message.fields[22]


@pytest.mark.parametrize(
    ("request_", "mti"),
    [
        (IncrementRequest(**CHILD, original=original(entry_mode="chip"), amount_minor=5_00), "0100"),
        (ReversalRequest(**CHILD, original=original(entry_mode="chip")), "0420"),
        (ClearingRequest(**CHILD, original=original(entry_mode="chip")), "0220"),
    ],
)
def test_follow_up_names_its_sale_and_can_be_built_again(request_: SaleFollowUpRequest, mti: str) -> None:
    simulation = row(request_)
    message = message_of(simulation, CREDENTIALS)
    assert message.mti == mti
    assert not {35, 55} & set(message.fields)
    assert message.fields[90].startswith("01000001231121093000")
    assert "SN0000000000122" in message.fields[48][:]
    assert (message.fields[11], message.fields[37]) == ("000777", simulation.rrn)
    rebuilt = message_of(row(request_), CREDENTIALS)
    assert ISO87_ASCII.encode(rebuilt) == ISO87_ASCII.encode(message)
    assert fingerprint(rebuilt, b"k" * 16) == fingerprint(message, b"k" * 16)


def test_partial_reversal_has_original_and_remaining_amount() -> None:
    simulation = row(ReversalRequest(**CHILD, original=original(entry_mode="chip"), amount_minor=2_34))
    message = message_of(simulation, CREDENTIALS)
    content = read(message)
    assert isinstance(content, ReversalNotice)
    assert (message.fields[4], content.remaining_minor) == ("000000001234", 10_00)


def test_presentment_has_its_arn_and_sequence() -> None:
    simulation = row(
        ClearingRequest(**CHILD, original=original(entry_mode="chip"), amount_minor=4_00, final=False)
    )
    content = read(message_of(simulation, CREDENTIALS))
    assert isinstance(content, Presentment)
    assert content.reference is not None
    assert (content.reference.arn, content.reference.sequence) == (arn("SN0000000000122"), 2)
    assert (content.final, content.purchase.amount_minor) == (False, 4_00)
