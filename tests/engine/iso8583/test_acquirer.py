"""The platform reads the same values from a request that the acquirer's side wrote."""

from __future__ import annotations

from typing import Literal

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs

from engine.commands import Channel
from engine.currencies import MerchantAmount
from engine.iso8583.acquirer import (
    References,
    Sale,
    authorization_request,
    network_request,
    quoted_authorization_id,
)
from engine.iso8583.content_reader import read_authorization
from engine.iso8583.message import Message
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.respond import answered
from engine.replies import WireAnswer

REFERENCES = References("424242", "000123", 1_795_253_400_000, "SN0000000000123")

sales = st.builds(
    Sale,
    pan=st.text("0123456789", min_size=12, max_size=19),
    expiry=st.none() | st.just("2911"),
    amount_minor=st.integers(0, 10**12 - 1),
    currency=st.sampled_from(["EUR", "GBP", "USD"]),
    mcc=st.text("0123456789", min_size=4, max_size=4),
    merchant_name=st.text(max_size=60),
    merchant_country=st.sampled_from(["IE", "GB", "US", "FR"]),
    channel=st.sampled_from(["pos", "ecommerce", "atm", "moto"]),
    kind=st.sampled_from(["purchase", "refund"]),
    entry_mode=st.sampled_from([None, "contactless", "chip", "magstripe", "manual"]),
    mit=st.booleans(),
    partial_allowed=st.booleans(),
    partial_cap_minor=st.none() | st.integers(0, 10**12 - 1),
    cvv2=st.none() | st.just("123"),
    auth_value=st.none() | st.just("AAABBB"),
    threeds_ref=st.none() | st.just("0b9f2c0a-6b1e-4b37-9d5f-3c1f0a2b4c5d"),
    scenario=st.none() | st.just("delegated_timeout"),
)


@given(sales)
def test_authorization_request_is_read_back_unchanged(sale: Sale) -> None:
    request = read_authorization(
        ISO87_ASCII.decode(ISO87_ASCII.encode(authorization_request(sale, REFERENCES)))
    )
    same = (
        "pan",
        "amount_minor",
        "currency",
        "mcc",
        "merchant_country",
        "kind",
        "mit",
        "partial_allowed",
    )
    secret = ("cvv2", "auth_value", "threeds_ref", "scenario")
    for name in same + secret:
        part = request.purchase if hasattr(request.purchase, name) else request
        assert getattr(part, name) == getattr(sale, name), name
    assert list(request.expiries) == ([] if sale.expiry is None else [sale.expiry])
    assert request.partial_cap_minor == (sale.partial_cap_minor if sale.partial_allowed else None)
    assert request.channel == channel_on_the_wire(sale)
    assert (request.purchase.wire.stan, request.purchase.wire.acquirer_id) == ("000123", "424242")
    assert (request.purchase.wire.rrn, request.purchase.wire.network_txn_id) == (
        REFERENCES.rrn,
        "SN0000000000123",
    )
    if not sale.mit and sale.entry_mode is not None:
        assert request.entry_mode == sale.entry_mode


@given(sales, st.integers(1, 10**12 - 1), st.sampled_from(["JPY", "CHF", "KWD"]))
def test_converted_request_is_read_back_unchanged(sale: Sale, charged_minor: int, currency: str) -> None:
    assume(sale.amount_minor)
    charged = MerchantAmount(charged_minor, currency)
    converted = structs.replace(sale, merchant_amount=charged)
    request = read_authorization(
        ISO87_ASCII.decode(ISO87_ASCII.encode(authorization_request(converted, REFERENCES)))
    )
    purchase = request.purchase
    assert (purchase.amount_minor, purchase.currency) == (sale.amount_minor, sale.currency)
    assert purchase.merchant_amount is not None
    assert structs.replace(purchase.merchant_amount, rate=None) == charged
    if request.partial_cap_minor is not None:
        assert sale.partial_cap_minor is not None
        assert request.partial_cap_minor <= sale.partial_cap_minor


def channel_on_the_wire(sale: Sale) -> Channel:
    """The channel that the platform reads. A refund at a cash machine has no processing code of its own, so
    it reads as a refund at a terminal."""
    return "pos" if sale.channel == "atm" and sale.kind == "refund" else sale.channel


def test_repr_of_a_sale_hides_its_secrets() -> None:
    entry: Literal["chip"] = "chip"
    sale = Sale(
        pan="4111111111111111", amount_minor=1, currency="EUR", mcc="5411", merchant_name="x",
        merchant_country="IE", channel="pos", entry_mode=entry, cvv2="123",
    )  # fmt: skip
    assert "4111" not in f"{sale} {sale!r}"


def test_network_management_request_gets_its_response() -> None:
    message = ISO87_ASCII.decode(ISO87_ASCII.encode(network_request("301", "000007", 1_795_253_400_000)))
    assert message == Message("0800", {7: "1121093000", 11: "000007", 70: "301"})


def test_authorization_id_of_a_response_is_found() -> None:
    request = Message("0100", {4: "000000000100"})
    quoted = answered(request, WireAnswer("00", "01900000-0000-7000-8000-000000000007", "ABC123", 1_00))
    assert quoted_authorization_id(quoted) == "01900000-0000-7000-8000-000000000007"
    assert quoted_authorization_id(Message("0110", {39: "14"})) is None
