"""Reading a machine-readable zone, and building one (ICAO Doc 9303, parts 3 to 6)."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

import msgspec

from engine.mrz.check_digit import FILLER, check_digit, protects
from engine.mrz.dates import is_date_text
from engine.mrz.layout import CODE, ISSUER, LAYOUTS, NUMBER_LENGTH, TD1, TD2, TD3, Layout, Span
from engine.mrz.states import is_state


class Fault(Enum):
    """Reasons why a text is not a machine-readable zone, in the order of the checks, without values."""

    LENGTH = "A machine-readable zone has 3 rows of 30, 2 rows of 36 or 2 rows of 44 characters."
    CHARACTERS = "A machine-readable zone has capital letters, digits and < only."
    DOCUMENT_CODE = "The document code does not fit this size of document."
    NUMBER_CHECK = "The check digit of the document number is wrong."
    BIRTH_CHECK = "The check digit of the date of birth is wrong."
    EXPIRY_CHECK = "The check digit of the date of expiry is wrong."
    OPTIONAL_CHECK = "The check digit of the optional data is wrong."
    COMPOSITE_CHECK = "The check digit over the whole zone is wrong."
    NUMBER = "The document number is missing."
    ISSUER = "The issuing state is not a code of ICAO Doc 9303-3."
    NATIONALITY = "The nationality is not a code of ICAO Doc 9303-3."
    BIRTH = "The date of birth is not a date."
    EXPIRY = "The date of expiry is not a date."
    SEX = "The sex is F, M or unspecified."
    NAMES = "The names are missing, or have characters other than letters."


class Zone(msgspec.Struct, frozen=True):
    """The fields of a zone. Dates are YYMMDD (``<<`` for an unknown part of a birth date), states alpha-3."""

    size: str
    """TD1, TD2 or TD3."""
    code: str
    issuer: str
    number: str
    nationality: str
    birth: str
    sex: str
    """F, M or an empty text."""
    expiry: str
    surname: tuple[str, ...]
    given: tuple[str, ...] = ()
    optional: str = ""
    optional_2: str = ""
    names_cut: bool = False
    """Whether the names fill their field, so that they may have been truncated."""


_SIZES: Final = {"TD1": TD1, "TD2": TD2, "TD3": TD3}
_TEXT: Final = re.compile(r"[A-Z0-9<]+")
_NUMBER: Final = re.compile(r"[A-Z0-9][A-Z0-9<]*")
_NAMES: Final = re.compile(r"[A-Z][A-Z<]*")


def read_zone(text: str) -> Zone | Fault:
    """The zone in ``text``: its rows joined, or each on a line of its own. Check digits are verified."""
    rows = text.replace("\r\n", "\n").strip("\n").split("\n")
    joined = "".join(rows)
    layout = LAYOUTS.get(len(joined))
    if layout is None or (len(rows) > 1 and {len(row) for row in rows} != {layout.columns}):
        return Fault.LENGTH
    if not _TEXT.fullmatch(joined):
        return Fault.CHARACTERS
    if joined[0] not in layout.codes:
        return Fault.DOCUMENT_CODE
    number, optional = _number(layout, joined)
    return _broken_check(layout, joined, number) or _zone(layout, joined, number or "", optional)


def _broken_check(layout: Layout, text: str, number: str | None) -> Fault | None:
    optional = _cut(text, layout.optional)
    composite = "".join(_cut(text, span) for span in layout.composite)
    if number is None:
        return Fault.NUMBER_CHECK
    if not protects(text[layout.birth[1]], _cut(text, layout.birth)):
        return Fault.BIRTH_CHECK
    if not protects(text[layout.expiry[1]], _cut(text, layout.expiry)):
        return Fault.EXPIRY_CHECK
    if layout.optional_check is not None and not _optional_protected(text[layout.optional_check], optional):
        return Fault.OPTIONAL_CHECK
    if not protects(text[layout.composite_check], composite):
        return Fault.COMPOSITE_CHECK
    return None


def _optional_protected(digit: str, optional: str) -> bool:
    """Where there is no optional data its check digit may be a filler (9303-4, section 4.2.2)."""
    return protects(digit, optional) or (digit == FILLER and not optional.strip(FILLER))


def _number(layout: Layout, text: str) -> tuple[str | None, str]:
    """The document number (``None`` when its check digit is wrong) and the rest of the optional data.

    A number of more than nine characters continues in the optional data, followed by its check digit, with a
    filler in the check digit's usual place (9303-5 and 9303-6, section 4.2.2).
    """
    number, digit = _cut(text, layout.number), text[layout.number[1]]
    optional = _cut(text, layout.optional)
    if digit != FILLER or not layout.long_numbers:
        return (number if protects(digit, number) else None), optional
    rest, _, left = optional.partition(FILLER)
    whole = number + rest[:-1]
    return (whole if len(rest) > 1 and protects(rest[-1], whole) else None), left


def _zone(layout: Layout, text: str, number: str, optional: str) -> Zone | Fault:
    number = number.rstrip(FILLER)
    names = _cut(text, layout.names)
    zone = Zone(
        size=layout.name,
        code=_cut(text, CODE).rstrip(FILLER),
        issuer=_cut(text, ISSUER).rstrip(FILLER),
        number=number,
        nationality=_cut(text, layout.nationality).rstrip(FILLER),
        birth=_cut(text, layout.birth),
        sex=text[layout.sex].strip(FILLER),
        expiry=_cut(text, layout.expiry),
        surname=_words(names.partition(FILLER * 2)[0]),
        given=_words(names.partition(FILLER * 2)[2]),
        optional=optional.rstrip(FILLER),
        optional_2=_cut(text, layout.optional_2).rstrip(FILLER) if layout.optional_2 else "",
        names_cut=names[-1] != FILLER,
    )
    return _broken_content(zone, names) or zone


def _broken_content(zone: Zone, names: str) -> Fault | None:
    if not _NUMBER.fullmatch(zone.number):
        return Fault.NUMBER
    if not is_state(zone.issuer):
        return Fault.ISSUER
    if not is_state(zone.nationality):
        return Fault.NATIONALITY
    if not is_date_text(zone.birth, partial=True):
        return Fault.BIRTH
    if not is_date_text(zone.expiry, partial=False):
        return Fault.EXPIRY
    if zone.sex not in {"F", "M", ""}:
        return Fault.SEX
    return None if _NAMES.fullmatch(names) else Fault.NAMES


def write_zone(zone: Zone) -> str:
    """The rows of ``zone`` with their check digits, separated by line feeds; long names are truncated.

    ``read_zone`` returns the same zone if its fields are valid and fit.
    """
    layout = _SIZES[zone.size]
    text = [FILLER] * layout.length
    optional = zone.optional
    digit = check_digit(zone.number.ljust(NUMBER_LENGTH, FILLER))
    if len(zone.number) > NUMBER_LENGTH:
        optional = f"{zone.number[NUMBER_LENGTH:]}{check_digit(zone.number)}{FILLER}{optional}"
        digit = FILLER
    names = FILLER.join(zone.surname) + (FILLER * 2 + FILLER.join(zone.given) if zone.given else "")
    for span, value in (
        (CODE, zone.code),
        (ISSUER, zone.issuer),
        (layout.names, names),
        (layout.number, zone.number),
        (layout.nationality, zone.nationality),
        (layout.birth, zone.birth),
        (layout.expiry, zone.expiry),
        (layout.optional, optional),
        (layout.optional_2 or (0, 0), zone.optional_2),
    ):
        _put(text, span, value)
    text[layout.number[1]] = digit
    text[layout.sex] = zone.sex or FILLER
    text[layout.birth[1]] = check_digit(zone.birth)
    text[layout.expiry[1]] = check_digit(zone.expiry)
    if layout.optional_check is not None:
        text[layout.optional_check] = check_digit("".join(text[slice(*layout.optional)]))
    text[layout.composite_check] = check_digit("".join("".join(text[slice(*s)]) for s in layout.composite))
    joined, width = "".join(text), layout.columns
    return "\n".join(joined[start : start + width] for start in range(0, layout.length, width))


def _cut(text: str, span: Span) -> str:
    return text[span[0] : span[1]]


def _put(text: list[str], span: Span, value: str) -> None:
    start, end = span
    kept = value[: end - start]
    text[start : start + len(kept)] = kept


def _words(names: str) -> tuple[str, ...]:
    return tuple(word for word in names.split(FILLER) if word)
