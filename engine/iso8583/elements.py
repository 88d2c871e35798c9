"""Reads and writes the values nested in DE7, DE37, DE43, DE48, DE54, DE90 and DE95.

The tags of DE48 are Stanchion's own (``ops/docs/WIRE.md``), because the private sub-fields of card schemes
are confidential. Readers raise ``ElementError`` with field and problem, without values.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from engine.instant import to_datetime
from engine.iso8583.latin import plain
from engine.pan import Masked

_HOUR_MS: Final = 3_600_000

TAG_CHARS: Final = 2
TAG_LENGTH_CHARS: Final = 3

TAG_CVV2: Final = "01"
TAG_AUTHENTICATION: Final = "02"
TAG_THREEDS_REFERENCE: Final = "03"
TAG_NETWORK_TXN_ID: Final = "04"
TAG_MIT: Final = "05"
TAG_OPERATION: Final = "06"
TAG_PARTIAL: Final = "07"
TAG_PRESENTMENT: Final = "08"
TAG_FINAL: Final = "09"
TAG_AUTHORIZATION_ID: Final = "10"
"""In responses only: the issuer's authorization id, which the network quotes in disputes."""
TAG_STAND_IN: Final = "11"
"""In advices: the network decided in the issuer's stead."""
TAG_POSTAL_CODE: Final = "12"
"""Billing address: the postal code."""
TAG_ADDRESS_LINE: Final = "13"
"""Billing address: the line with street and house number."""
TAG_SCENARIO: Final = "99"
"""Test mode only."""
ENDPOINT_SILENT: Final = "delegated_timeout"
"""Value of tag 99: treat the programme's decision endpoint as silent until its deadline."""
ANSWER_WITHHELD: Final = "force_stip_timeout"
"""Value of tag 99: withhold the answer until after the network's deadline."""

_SECRET_TAGS: Final = frozenset({TAG_CVV2, TAG_AUTHENTICATION, TAG_POSTAL_CODE, TAG_ADDRESS_LINE})
"""Verification values, and personal data of the cardholder."""

NAME_CHARS: Final = 23
CITY_CHARS: Final = 15
COUNTRY_CHARS: Final = 2

ORIGINAL_AMOUNT: Final = "57"
"""DE54 amount type: the requested amount of a partial approval."""

INCREMENT: Final = "INC"
"""Tag 06: DE4 is added to an earlier authorization."""

ARN_DIGITS: Final = 23
_PRESENTMENT: Final = re.compile(r"(\d{23})(\d{1,4})", re.ASCII)
_FINAL: Final = {"": True, "1": True, "Y": True, "0": False, "N": False}

_AMOUNT_CHARS: Final = 20
_ADDITIONAL_AMOUNT: Final = re.compile(r"(\d{2})(\d{2})(\d{3})([CD])(\d{12})", re.ASCII)
_ORIGINAL: Final = re.compile(r"(\d{4})(\d{6})(\d{10})(\d{11})(\d{11})", re.ASCII)
_REPLACEMENT: Final = re.compile(r"(\d{12})(\d{12})([CD ]?\d{8,9})([CD ]?\d{8,9})", re.ASCII)


class ElementError(ValueError):
    """A field violates the profile."""

    def __init__(self, field: int, problem: str) -> None:
        super().__init__(f"DE{field}: {problem}")
        self.field = field
        self.problem = problem


# DE7, DE37 --------------------------------------------------------------------------------------------------


def transmission_time(at_ms: int) -> str:
    """DE7: MMDDhhmmss, UTC."""
    return _second_text(at_ms // 1000)


def retrieval_reference(at_ms: int, stan: str) -> str:
    """DE37: last digit of the year, day of the year, hour and STAN; twelve digits."""
    return f"{_hour_text(at_ms // _HOUR_MS)}{stan}"


@lru_cache(maxsize=64)
def _second_text(at_s: int) -> str:
    return to_datetime(at_s * 1000).strftime("%m%d%H%M%S")


@lru_cache(maxsize=64)
def _hour_text(at_hours: int) -> str:
    at = to_datetime(at_hours * _HOUR_MS)
    return f"{at.year % 10}{at.timetuple().tm_yday:03d}{at.hour:02d}"


# DE43 -------------------------------------------------------------------------------------------------------


class CardAcceptor(msgspec.Struct, frozen=True):
    """DE43: name (23), city (15), country (ISO 3166-1 alpha-2)."""

    name: str
    city: str
    country: str


def read_card_acceptor(text: str) -> CardAcceptor:
    """The parts of a 40-character DE43, with the country in upper case."""
    country = text[-COUNTRY_CHARS:].upper()
    if not country.isalpha():
        raise ElementError(43, "does not end in a country")
    return CardAcceptor(text[:NAME_CHARS].strip(), text[NAME_CHARS:-COUNTRY_CHARS].strip(), country)


def write_card_acceptor(acceptor: CardAcceptor) -> str:
    """A DE43 in printable ASCII: long parts are truncated, other letters are transliterated."""
    name = plain(acceptor.name)[:NAME_CHARS].ljust(NAME_CHARS)
    city = plain(acceptor.city)[:CITY_CHARS].ljust(CITY_CHARS)
    return f"{name}{city}{acceptor.country}"


# DE48 -------------------------------------------------------------------------------------------------------


def read_private(text: str) -> dict[str, str]:
    """The tags of a DE48: tag (2), length (3), value, repeated. Secret values are masked."""
    tags: dict[str, str] = {}
    at, end = 0, len(text)
    while at < end:
        start = at + TAG_CHARS + TAG_LENGTH_CHARS
        tag, length = text[at : at + TAG_CHARS], text[at + TAG_CHARS : start]
        if start > end or not length.isdecimal():
            raise ElementError(48, f"has no tag and length at {at}")
        at = start + int(length)
        if at > end:
            raise ElementError(48, f"is cut short at {start}")
        if tag in tags:
            raise ElementError(48, "repeats a tag")
        tags[tag] = Masked(text[start:at]) if tag in _SECRET_TAGS else text[start:at]
    return tags


def write_private(tags: dict[str, str]) -> Masked:
    """A DE48 with ``tags`` in their order. The codec checks the total length."""
    parts: list[str] = []
    for tag, value in tags.items():
        if len(tag) != TAG_CHARS or len(value) >= 10**TAG_LENGTH_CHARS:
            raise ElementError(48, "holds a tag that does not fit")
        parts += (tag, f"{len(value):03d}", value)
    return Masked("".join(parts))


class PresentmentReference(msgspec.Struct, frozen=True):
    """Tag 08: the acquirer reference number and the sequence number of the presentment, from 1."""

    arn: str
    sequence: int


def read_presentment_reference(text: str) -> PresentmentReference:
    """A tag 08: n23, then one to four digits."""
    match = _PRESENTMENT.fullmatch(text)
    if match is None or int(match[2]) == 0:
        raise ElementError(48, "has a malformed tag 08")
    return PresentmentReference(match[1], int(match[2]))


def write_presentment_reference(reference: PresentmentReference) -> str:
    """A tag 08. The sequence has at least two digits."""
    return f"{reference.arn}{reference.sequence:02d}"


def read_final(text: str | None) -> bool:
    """A tag 09: ``1``, ``Y`` or absent for the last presentment, ``0`` or ``N`` if more may follow."""
    if text is None:
        return True
    if text not in _FINAL:
        raise ElementError(48, "has a malformed tag 09")
    return _FINAL[text]


def write_final(final: bool) -> str:
    """A tag 09."""
    return "1" if final else "0"


# DE54 -------------------------------------------------------------------------------------------------------


class AdditionalAmount(msgspec.Struct, frozen=True):
    """One of up to twelve amounts in DE54; ``amount_minor`` is negative on a credit."""

    amount_type: str
    currency: str
    amount_minor: int
    account_type: str = "00"


def read_additional_amounts(text: str) -> list[AdditionalAmount]:
    """The amounts of a DE54: account type, amount type, currency, sign and n12, twenty characters each."""
    amounts = []
    for at in range(0, len(text), _AMOUNT_CHARS):
        match = _ADDITIONAL_AMOUNT.fullmatch(text, at, min(at + _AMOUNT_CHARS, len(text)))
        if match is None:
            raise ElementError(54, f"has no amount at {at}")
        account_type, amount_type, currency, sign, digits = match.groups()
        amount_minor = -int(digits) if sign == "C" else int(digits)
        amounts.append(AdditionalAmount(amount_type, currency, amount_minor, account_type))
    return amounts


def write_additional_amounts(amounts: list[AdditionalAmount]) -> str:
    """A DE54 with ``amounts``."""
    return "".join(
        f"{amount.account_type}{amount.amount_type}{amount.currency}"
        f"{'C' if amount.amount_minor < 0 else 'D'}{abs(amount.amount_minor):012d}"
        for amount in amounts
    )


# DE90, DE95 -------------------------------------------------------------------------------------------------


class OriginalElements(msgspec.Struct, frozen=True):
    """DE90: the original message of a reversal, an advice or a presentment. Institution ids have no leading
    zeros."""

    mti: str
    stan: str
    transmitted_at: str
    acquirer_id: str
    forwarder_id: str = ""


def read_original_elements(text: str) -> OriginalElements:
    """The parts of a DE90: n4, n6, n10, n11, n11."""
    match = _ORIGINAL.fullmatch(text)
    if match is None:
        raise ElementError(90, "is not 42 digits")
    mti, stan, transmitted_at, acquirer_id, forwarder_id = match.groups()
    return OriginalElements(mti, stan, transmitted_at, acquirer_id.lstrip("0"), forwarder_id.lstrip("0"))


def write_original_elements(original: OriginalElements) -> str:
    """A DE90. Institution ids are right-justified and padded with zeros."""
    return (
        f"{original.mti}{original.stan}{original.transmitted_at}"
        f"{original.acquirer_id:0>11}{original.forwarder_id:0>11}"
    )


def read_replacement_amount(text: str) -> int:
    """The transaction amount of a DE95, in minor units: the amount that remains after a partial reversal."""
    match = _REPLACEMENT.fullmatch(text)
    if match is None or len(text) != 42:
        raise ElementError(95, "is not four amounts")
    return int(match[1])


def write_replacement_amount(amount_minor: int) -> str:
    """A DE95 with this transaction amount, without settlement amount and fees."""
    return f"{amount_minor:012d}{0:012d}D{0:08d}D{0:08d}"
