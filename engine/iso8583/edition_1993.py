"""Translation between messages of the 1993 version and the form of the 1987 version, which the engine reads.

The versions differ in elements, not only in encodings: date and local time are one element (DE12), the
merchant category is DE26, DE22 has twelve positions, DE24 says what a message is for, DE56 names an original,
and a partial reversal has the amount that remains in DE4 and the original amount in DE30.

DE12 takes the place of DE7 in the identity of a message, because DE56 names an original by its DE12.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from iso3166 import countries_by_alpha2, countries_by_alpha3

from engine.iso8583.elements import (
    COUNTRY_CHARS,
    INCREMENT,
    TAG_OPERATION,
    CardAcceptor,
    ElementError,
    OriginalElements,
    read_card_acceptor,
    read_original_elements,
    write_card_acceptor,
    write_original_elements,
    write_replacement_amount,
)
from engine.iso8583.message_types import Function

Fields = Mapping[int, str]
Tags = Mapping[str, str]

_EQUAL: Final = (
    *(2, 3, 4, 5, 6, 9, 10, 11, 14, 19, 23, 32, 33, 35, 36, 37, 38, 41, 42, 45),
    *(49, 50, 51, 52, 54, 55, 64, 128),
)
"""Elements with one meaning and form in both versions."""

INCREMENT_CODES: Final = frozenset({"106", "107"})
"""DE24: supplementary authorization, amount accurate or estimated."""
PARTIAL_REVERSAL: Final = "401"
_FUNCTION_CODES: Final[Mapping[Function, str]] = {
    "authorization": "100",
    "advice": "100",
    "presentment": "201",
    "reversal": "400",
}
_FORCE_POST: Final = "200"
NETWORK_CODES: Final = {"801": "001", "802": "002", "831": "301"}
"""DE24 of network management, and the equal DE70: sign-on, sign-off, echo test."""
_OWN_NETWORK_CODES: Final = {code: own for own, code in NETWORK_CODES.items()}

_ORIGINAL: Final = re.compile(r"1(\d{3})(\d{6})\d\d(\d{10})(\d\d)(\d{1,11})", re.ASCII)
_AMOUNTS: Final = re.compile(r"(\d{12})\d{12}", re.ASCII)

_TAIL_CHARS: Final = 16
"""The end of DE43: postal code (10), region (3), country (3)."""
_NAME_SEPARATOR: Final = "\\"

_RECURRING, _ELECTRONIC, _PHONE, _PRESENT = "4", "5", "3", "0"
_ABSENT_CONDITIONS: Final = {"2": "08", "3": "08", "4": "05", "5": "59", "S": "59"}
"""DE25 by position 5 of DE22 (presence of the cardholder)."""
_INPUT_ENTRIES: Final = {"2": "90", "5": "05", "7": "07", "A": "07", "B": "07", "M": "07"}
"""First digits of DE22 of the 1987 version, by position 7 (input of the card's data)."""
_ENTRY_INPUTS: Final = {"05": "5", "95": "5", "07": "A", "91": "B", "02": "2", "80": "2", "90": "2"}
_KEYED, _STORED = "6", "1"
_POINT_OF_SERVICE_CHARS: Final = 12


def to_1987(fields: Fields, tags: Tags) -> tuple[dict[int, str], Tags]:
    """The elements and the facts of a message in the form of the 1987 version. DE39 keeps its code. Raises
    ``ElementError``."""
    read = {number: fields[number] for number in _EQUAL if number in fields}
    if 12 in fields:
        local = fields[12]
        read |= {7: local[2:], 12: local[6:], 13: local[2:6]}
    if 26 in fields:
        read[18] = fields[26]
    if 22 in fields:
        read[22], read[25] = _read_point_of_service(fields[22])
    if 39 in fields:
        read[39] = fields[39]
    if 43 in fields:
        read[43] = _read_location(fields[43])
    if 56 in fields:
        read[90] = _read_original(fields[56])
    code = fields.get(24, "")
    if code in NETWORK_CODES:
        read[70] = NETWORK_CODES[code]
    if code == PARTIAL_REVERSAL:
        read |= _read_partial_reversal(fields)
    if code in INCREMENT_CODES:
        tags = {**tags, TAG_OPERATION: INCREMENT}
    return read, tags


def from_1987(fields: Fields, tags: Tags, function: Function, year: int) -> dict[int, str]:
    """The elements of a message of the 1993 version. ``year``: of DE12 and of the original in DE90."""
    written = {number: fields[number] for number in _EQUAL if number in fields}
    written[7] = fields[7]
    written[12] = f"{year % 100:02d}{fields.get(13, fields[7][:4])}{fields.get(12, fields[7][4:])}"
    if 18 in fields:
        written[26] = fields[18]
    if 22 in fields:
        written[22] = _write_point_of_service(fields[22][:2], fields.get(25, ""))
    if 39 in fields:
        written[39] = fields[39]
    if 43 in fields:
        written[43] = _write_location(read_card_acceptor(fields[43]))
    if 90 in fields:
        written[56] = _write_original(read_original_elements(fields[90]), fields[7], year)
    if 95 in fields:
        written[30] = f"{fields[4]}{0:012d}"
        written[4] = fields[95][:12]
    written[24] = _function_code(fields, tags, function)
    return written


def _function_code(fields: Fields, tags: Tags, function: Function) -> str:
    if function == "network_management":
        return _OWN_NETWORK_CODES[fields[70]]
    if function == "reversal" and 95 in fields:
        return PARTIAL_REVERSAL
    if function == "authorization" and TAG_OPERATION in tags:
        return "106"
    if function == "presentment" and 90 not in fields:
        return _FORCE_POST
    return _FUNCTION_CODES[function]


def _read_partial_reversal(fields: Fields) -> dict[int, str]:
    amounts = _AMOUNTS.fullmatch(fields.get(30, ""))
    if amounts is None or not fields.get(4, "").isdecimal():
        raise ElementError(30, "has no original amount beside the amount that remains")
    return {4: amounts[1], 95: write_replacement_amount(int(fields[4]))}


def _read_original(text: str) -> str:
    match = _ORIGINAL.fullmatch(text)
    if match is None or int(match[4]) != len(match[5]):
        raise ElementError(56, "names no original message")
    mti, stan, transmitted_at, _, acquirer_id = match.groups()
    return write_original_elements(OriginalElements(f"0{mti}", stan, transmitted_at, acquirer_id))


def _write_original(original: OriginalElements, transmitted_at: str, year: int) -> str:
    """DE56. An original with a later date than its follow-up is of the year before."""
    year -= original.transmitted_at > transmitted_at
    acquirer_id = original.acquirer_id
    return (
        f"1{original.mti[1:]}{original.stan}{year % 100:02d}{original.transmitted_at}"
        f"{len(acquirer_id):02d}{acquirer_id}"
    )


def _read_point_of_service(code: str) -> tuple[str, str]:
    """DE22 and DE25 of the 1987 version."""
    if len(code) < _POINT_OF_SERVICE_CHARS:
        raise ElementError(22, "is too short")
    presence, mode = code[4], code[6]
    condition = _ABSENT_CONDITIONS.get(presence, "71" if mode == _KEYED and presence == _PRESENT else "00")
    if mode in _INPUT_ENTRIES:
        entry = _INPUT_ENTRIES[mode]
    elif mode == _STORED and presence in (_RECURRING, _ELECTRONIC, "S"):
        entry = "10"
    elif mode in (_KEYED, _STORED):
        entry = "81" if condition == "59" else "01"
    else:
        entry = "00"
    return f"{entry}0", condition


def _write_point_of_service(entry: str, condition: str) -> str:
    presence = {"59": _ELECTRONIC, "08": _PHONE}.get(condition, _RECURRING if entry == "10" else _PRESENT)
    mode = _ENTRY_INPUTS.get(entry, {"01": _KEYED, "81": _KEYED, "10": _STORED}.get(entry, "0"))
    card = "1" if presence == _PRESENT else "0"
    return f"0000{presence}{card}{mode}00000"


def _read_location(text: str) -> str:
    r"""DE43 of the 1987 version, from ``name\street\city\`` and a tail that ends in the country."""
    parts = text.split(_NAME_SEPARATOR)
    country = parts[-1][-3:].strip().upper()
    if len(parts) != 4 or len(parts[-1]) != _TAIL_CHARS:
        raise ElementError(43, "is not name, street, city and location")
    if len(country) != COUNTRY_CHARS:
        known = countries_by_alpha3.get(country)
        if known is None:
            raise ElementError(43, "does not end in a country")
        country = known.alpha2
    return write_card_acceptor(CardAcceptor(parts[0], parts[2], country))


def _write_location(acceptor: CardAcceptor) -> str:
    known = countries_by_alpha2.get(acceptor.country)
    country = acceptor.country if known is None else known.alpha3
    name, city = (part.replace(_NAME_SEPARATOR, "/") for part in (acceptor.name, acceptor.city))
    return f"{name}{_NAME_SEPARATOR * 2}{city}{_NAME_SEPARATOR}{country:>{_TAIL_CHARS}.3}"
