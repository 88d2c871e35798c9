"""The leak search finds values in every encoding, also across pieces, and reports whether its control value
was found."""

from __future__ import annotations

import base64

import pytest

from ops.chaos.leak_search import PIECE_OVERLAP_BYTES, LeakSearch
from ops.chaos.traffic.canaries import COMMON, PERSON, personal, picture

SECRET = b"a-secret-of-the-tests"
TOKEN = b"whsec_of-the-tests"
PAN = "4560000012345678"
OTHER_PAN = "4560000087654321"
FORMS = [
    SECRET,
    SECRET.upper(),
    SECRET.hex().encode(),
    SECRET.hex().upper().encode(),
    *(base64.b64encode(bytes(shift) + SECRET + b"!") for shift in range(3)),
]


def search() -> LeakSearch:
    return LeakSearch(
        {"the secret": SECRET}, {"a token": TOKEN}, [PAN, OTHER_PAN], ["123"], control=b"control"
    )


@pytest.mark.parametrize("form", FORMS)
def test_every_encoding_of_a_value_is_found(form: bytes) -> None:
    looking = search()
    looking.feed(b"before " + form + b" after")
    assert looking.found == {"the secret"}
    assert not looking.meaningful


@pytest.mark.parametrize("at", range(0, len(SECRET), 4))
def test_a_value_across_two_pieces_is_found(at: int) -> None:
    looking = search()
    padding = b"." * 2 * PIECE_OVERLAP_BYTES
    for piece in (padding + SECRET[:at], SECRET[at:] + padding, b"con", b"trol"):
        looking.feed(piece)
    assert looking.found == {"the secret"}
    assert looking.meaningful


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f'"pan": "{PAN}"', {"a card number"}),
        (PAN, {"a card number"}),
        (f"{OTHER_PAN[:9]} {OTHER_PAN}", {"a card number"}),
        (f"9{PAN}", set()),
        (f"{PAN}9", set()),
        (f"token={TOKEN.decode()}", {"a token"}),
        (TOKEN.hex().upper(), {"a token"}),
        ("4560000012345670", set()),
        ('"cvv2": "123"', {"a CVV2"}),
        ("CVV2=123", {"a CVV2"}),
        ('"cvv2": "124"', set()),
        ("123", set()),
        ("nothing at all", set()),
    ],
)
def test_only_issued_card_numbers_are_found(text: str, found: set[str]) -> None:
    looking = search()
    looking.feed(text.encode())
    assert looking.found == found


def test_all_values_of_an_applicant_are_searched_for() -> None:
    assert PERSON.keys() - COMMON < personal().keys()
    for name, value in personal().items():
        looking = LeakSearch(personal(), {}, control=b"control")
        looking.feed(b"<" + value + b">")
        assert name in looking.found
    looking = LeakSearch(personal(), {}, control=b"control")
    looking.feed(picture())
    assert looking.found == {"picture"}
