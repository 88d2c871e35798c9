"""The EMV data of simulated chip cards are well-formed and repeatable."""

from __future__ import annotations

import msgspec
import pytest

from engine.iso8583.acquirer import References, Sale, authorization_request
from engine.iso8583.content import AuthorizationRequest
from engine.iso8583.content_reader import read
from engine.iso8583.emv_tlv import shown
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.terminal import MASTERCARD, VISA, chip_data
from engine.pan import Pan

REFERENCES = References("424242", "000123", 1_795_253_400_000, "SN0000000000123")
SALE = Sale(
    pan=Pan("4111111111111111"),
    amount_minor=12_34,
    currency="EUR",
    mcc="5411",
    merchant_name="Corner Shop",
    merchant_country="IE",
    channel="pos",
    entry_mode="chip",
)


def test_data_describe_the_sale() -> None:
    request = authorization_request(
        msgspec.structs.replace(SALE, chip=chip_data(SALE, REFERENCES)), REFERENCES
    )
    content = read(ISO87_ASCII.decode(ISO87_ASCII.encode(request)))
    assert isinstance(content, AuthorizationRequest)
    tags = dict(each.split("=") for each in shown(content.chip, content.pan))
    assert (tags["9F02"], tags["5F2A"], tags["9F1A"], tags["9A"]) == (
        "000000001234",
        "0978",
        "0372",
        "261121",
    )
    assert (tags["9C"], tags["9F36"], tags["84"], tags["9F26"]) == ("00", "007B", VISA, "****")
    assert request.fields[23] == "000"


def test_data_are_the_same_when_built_again_and_differ_between_sales() -> None:
    assert chip_data(SALE, REFERENCES) == chip_data(SALE, REFERENCES)
    other = msgspec.structs.replace(REFERENCES, stan="000124")
    assert chip_data(SALE, REFERENCES) != chip_data(SALE, other)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"pan": Pan("5500000000000004")}, f"8407{MASTERCARD}"),
        ({"kind": "refund"}, "9C0120"),
        ({"channel": "atm"}, "9C0101"),
        ({"merchant_country": "FR"}, "9F1A020000"),
        ({"currency": "USD"}, "5F2A020840"),
        ({"amount_minor": 10**12 - 1}, "9F0206999999999999"),
    ],
)
def test_data_follow_the_sale(changes: dict[str, object], part: str) -> None:
    text = chip_data(msgspec.structs.replace(SALE, **changes), REFERENCES)
    assert part in text[:]
    assert part not in f"{text}"
