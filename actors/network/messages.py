"""ISO 8583 messages of the simulated network.

A message is a function of its row, the row of its sale and the card, so the network can build the same
message again after a restart. It is therefore dated by the acceptance of the simulation.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from actors.network.cards import CardCredentials
from actors.network.simulation_store import Simulation
from engine.iso8583.acquirer import References, Sale, authorization_request
from engine.iso8583.acquirer_follow_ups import FirstMessage, increment, presentment, reversal_advice
from engine.iso8583.elements import (
    ANSWER_WITHHELD,
    ARN_DIGITS,
    ENDPOINT_SILENT,
    PresentmentReference,
    retrieval_reference,
    transmission_time,
)
from engine.iso8583.message import Message
from engine.iso8583.terminal import chip_data
from engine.pan import luhn_digit
from engine.simulation import FollowUpRecord, Original, SpendRequest

ACQUIRER_ID: Final = "424242"
"""DE32 of the simulated acquirer."""
STANS: Final = 999_999

_TERMINALS: Final = ("pos", "atm")
"""Channels in which a terminal can read the card."""
_ARN_FORMAT: Final = "7"
_NO_DIGIT: Final = re.compile(r"\D", re.ASCII)


def wire_stan(serial: int) -> str:
    """DE11 of a serial number. It wraps around, and 000000 is never used."""
    return f"{serial % STANS + 1:06d}"


def network_txn_id(serial: int) -> str:
    """The network's id of a whole transaction. Unique, because serial numbers are never taken twice."""
    return f"SN{serial:013d}"


def rrn(stan: str, accepted_ms: int) -> str:
    """DE37."""
    return retrieval_reference(accepted_ms, stan)


def arn(network_txn_id: str) -> str:
    """The acquirer reference number of a transaction, the same for all of its presentments: format,
    acquirer, the digits of the network's id, check digit; 23 in all."""
    digits = _NO_DIGIT.sub("", network_txn_id)
    room = ARN_DIGITS - len(_ARN_FORMAT) - len(ACQUIRER_ID) - 1
    body = f"{_ARN_FORMAT}{ACQUIRER_ID}{digits[-room:]:0>{room}}"
    return f"{body}{luhn_digit(body)}"


def message_of(simulation: Simulation, credentials: CardCredentials) -> Message:
    """The message of ``simulation``. Raises ``ElementError`` for a value that does not fit its element;
    ``encode`` refuses other values."""
    request, original = simulation.request, simulation.original
    assert simulation.stan is not None, "refused simulations have no message"
    references = References(ACQUIRER_ID, simulation.stan, request.accepted_ms, simulation.network_txn_id)
    sale = sale_of(request, credentials)
    if not isinstance(request, FollowUpRecord):
        return authorization_request(_read(sale, references, credentials), references)
    first = None if original is None else first_message(original)
    if request.operation == "clearing":
        return presentment(sale, references, first, _presentment_reference(simulation), request.final)
    assert original is not None, "increments and reversals have a sale"
    assert first is not None, "increments and reversals have a sale"
    if request.operation == "increment":
        return increment(sale, references, first)
    # DE4 of a reversal is the original amount; DE95 holds the amount that remains.
    whole = msgspec.structs.replace(
        sale,
        amount_minor=original.request.amount_minor,
        merchant_amount=original.request.merchant_amount,
    )
    return reversal_advice(whole, references, first, request.remaining_minor)


def first_message(original: Original) -> FirstMessage:
    """The references by which follow-ups name the 0100 of a sale."""
    return FirstMessage(ACQUIRER_ID, original.stan, transmission_time(original.request.accepted_ms))


def sale_of(request: SpendRequest, credentials: CardCredentials) -> Sale:
    """The sale as the terminal sends it. Scenarios become fields of the message."""
    cap_minor = request.approved_amount_minor
    partial_allowed = request.scenario == "partial_approval" or cap_minor is not None
    return Sale(
        pan=credentials.pan,
        expiry=credentials.expiry,
        amount_minor=request.amount_minor,
        currency=request.currency,
        mcc=request.mcc,
        merchant_name=request.merchant_name,
        merchant_country=request.merchant_country,
        channel=request.channel,
        kind=request.kind,
        entry_mode=request.entry_mode,
        mit=request.mit,
        partial_allowed=partial_allowed,
        partial_cap_minor=cap_minor,
        merchant_amount=request.merchant_amount,
        **({} if request.merchant_id is None else {"merchant_id": request.merchant_id.ljust(15)}),
        cvv2=request.cvv2,
        auth_value=request.auth_value,
        threeds_ref=request.threeds_ref,
        scenario=request.scenario if request.scenario in (ENDPOINT_SILENT, ANSWER_WITHHELD) else None,
    )


def _read(sale: Sale, references: References, credentials: CardCredentials) -> Sale:
    """``sale`` with the data that the terminal reads in its entry mode."""
    if sale.mit or sale.channel not in _TERMINALS:
        return sale
    if sale.entry_mode == "magstripe":
        return msgspec.structs.replace(sale, track_2=credentials.track_2)
    if sale.entry_mode not in ("chip", "contactless"):
        return sale
    return msgspec.structs.replace(sale, track_2=credentials.chip_track_2, chip=chip_data(sale, references))


def _presentment_reference(simulation: Simulation) -> PresentmentReference:
    request = simulation.request
    assert isinstance(request, FollowUpRecord), "only follow-ups are presentments"
    assert simulation.network_txn_id is not None, "refused simulations have no message"
    return PresentmentReference(arn(simulation.network_txn_id), request.sequence)
