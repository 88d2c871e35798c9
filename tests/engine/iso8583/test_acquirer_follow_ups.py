"""The platform reads the same values from a follow-up that the acquirer's side wrote."""

from __future__ import annotations

from engine.commands import reference_of_message, reference_of_network
from engine.iso8583.acquirer import References, Sale, authorization_request
from engine.iso8583.acquirer_follow_ups import (
    FirstMessage,
    increment,
    presentment,
    reversal_advice,
    stand_in_advice,
    timeout_reversal,
)
from engine.iso8583.content import Advice, AuthorizationRequest, Content, Presentment, ReversalNotice
from engine.iso8583.content_reader import read
from engine.iso8583.elements import PresentmentReference
from engine.iso8583.identity import AUTHORIZATION, command_key, wire_identity
from engine.iso8583.message import Message
from engine.iso8583.profiles import ISO87_ASCII

SALE = Sale(
    pan="4111111111111111", expiry="2911", amount_minor=12_34, currency="EUR", mcc="5411",
    merchant_name="Corner shop", merchant_country="IE", channel="pos", cvv2="987", auth_value="AAAB",
    threeds_ref="ref", partial_allowed=True, mit=True,
)  # fmt: skip
FIRST_REFERENCES = References("424242", "000123", 1_795_253_400_000, "SN0000000000123")
LATER = References("424242", "000777", 1_795_260_600_000, "SN0000000000123")
SAID = authorization_request(SALE, FIRST_REFERENCES)
FIRST = FirstMessage("424242", "000123", SAID.fields[7])
ARN = PresentmentReference("7" * 23, 3)
NETWORK = reference_of_network("SN0000000000123")
MESSAGE = reference_of_message(command_key(wire_identity(SAID), AUTHORIZATION))


def over_the_wire(message: Message) -> Content:
    assert "987" not in ISO87_ASCII.encode(message).decode()
    assert "AAAB" not in ISO87_ASCII.encode(message).decode()
    return read(ISO87_ASCII.decode(ISO87_ASCII.encode(message)))


def test_increment_names_its_sale_and_adds_its_amount() -> None:
    content = over_the_wire(increment(SALE, LATER, FIRST))
    assert isinstance(content, AuthorizationRequest)
    assert content.purchase.references[:2] == (NETWORK, MESSAGE)
    assert (content.purchase.amount_minor, content.mit) == (12_34, True)
    assert content.purchase.wire.stan == "000777"


def test_reversal_names_its_sale_and_the_remaining_amount() -> None:
    whole = over_the_wire(reversal_advice(SALE, LATER, FIRST, None))
    assert isinstance(whole, ReversalNotice)
    assert (whole.references[0], whole.references[-1], whole.remaining_minor) == (MESSAGE, NETWORK, None)
    partial = over_the_wire(reversal_advice(SALE, LATER, FIRST, 5_00))
    assert isinstance(partial, ReversalNotice)
    assert partial.remaining_minor == 5_00


def test_presentment_has_reference_amount_and_finality() -> None:
    content = over_the_wire(presentment(SALE, LATER, FIRST, ARN, final=False))
    assert isinstance(content, Presentment)
    assert (content.reference, content.final) == (ARN, False)
    assert content.purchase.references[:2] == (NETWORK, MESSAGE)
    forced = over_the_wire(presentment(SALE, LATER, None, ARN, final=True))
    assert isinstance(forced, Presentment)
    assert (forced.final, forced.purchase.references) == (True, (NETWORK,))


def test_timeout_reversal_has_the_references_of_its_request() -> None:
    message = timeout_reversal(SAID)
    content = over_the_wire(message)
    assert isinstance(content, ReversalNotice)
    assert content.references == (MESSAGE, NETWORK)
    assert content.wire == wire_identity(SAID, "SN0000000000123")
    assert message.mti == "0420"


def test_stand_in_advice_has_the_references_of_its_request() -> None:
    message = stand_in_advice(SAID, "ABC123")
    content = over_the_wire(message)
    assert isinstance(content, Advice)
    assert (message.fields[38], message.fields[39]) == ("ABC123", "00")
    assert (content.approved, content.purchase.references) == (True, (NETWORK, MESSAGE))
