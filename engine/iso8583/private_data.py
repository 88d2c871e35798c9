"""Where the messages of a profile carry the facts that ISO 8583 has no element for.

Inside, a fact has the tag of Stanchion's own DE48 (``elements.TAG_…``) and its value. ``OwnTags`` reads that
DE48. ``MappedFacts`` finds each fact in a field, in a part of a field, or under a tag of a TLV field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import msgspec

from engine.iso8583 import elements
from engine.iso8583.elements import ElementError, read_private, write_private
from engine.iso8583.formats import FieldFormat
from engine.pan import Masked

TAGS_BY_FACT: Final = {
    "cvv2": elements.TAG_CVV2,
    "authentication_value": elements.TAG_AUTHENTICATION,
    "threeds_reference": elements.TAG_THREEDS_REFERENCE,
    "network_transaction_id": elements.TAG_NETWORK_TXN_ID,
    "merchant_initiated": elements.TAG_MIT,
    "operation": elements.TAG_OPERATION,
    "partial_allowed": elements.TAG_PARTIAL,
    "presentment": elements.TAG_PRESENTMENT,
    "final": elements.TAG_FINAL,
    "authorization_id": elements.TAG_AUTHORIZATION_ID,
    "stand_in": elements.TAG_STAND_IN,
    "scenario": elements.TAG_SCENARIO,
}
"""Names of the facts in profile files."""

_EQUAL_VALUES: Final = {elements.TAG_OPERATION: elements.INCREMENT}
"""Value inside of a fact that is present when its place equals a constant; others have ``1``."""
_INDISPENSABLE: Final = frozenset({elements.TAG_OPERATION, elements.TAG_PRESENTMENT, elements.TAG_FINAL})
"""Facts without which a message has another meaning."""
_SECRET: Final = frozenset({elements.TAG_CVV2, elements.TAG_AUTHENTICATION})

Tags = Mapping[str, str]


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a fact is: a field, ``length`` characters of it ``at`` a position from 0, or the value of a
    ``tag``. With ``equals``, the fact is present if the place holds that text."""

    field: int
    at: int | None = None
    length: int | None = None
    tag: str | None = None
    equals: str | None = None


class TlvFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Widths in characters of the tags and of the decimal lengths of a TLV field."""

    tag_chars: int
    length_chars: int


class PrivateData(Protocol):
    """Reads and writes the facts of one profile."""

    def read(self, fields: Mapping[int, str]) -> Tags:
        """The facts in ``fields``. Raises ``ElementError``."""

    def write(self, fields: dict[int, str], tags: Tags) -> None:
        """Add ``tags`` to ``fields``. A fact without a place is left out. Raises ``ElementError`` if the
        message would have another meaning without it, or a value does not fit."""


class OwnTags:
    """Stanchion's DE48 (``ops/docs/WIRE.md``)."""

    def read(self, fields: Mapping[int, str]) -> Tags:
        return read_private(fields[48]) if 48 in fields else {}

    def write(self, fields: dict[int, str], tags: Tags) -> None:
        if tags:
            fields[48] = write_private(dict(tags))


class MappedFacts:
    """Facts at ``places``, by their tags."""

    def __init__(
        self,
        places: Mapping[str, Place],
        tlv: Mapping[int, TlvFormat],
        table: Mapping[int, FieldFormat],
    ) -> None:
        self._places = dict(places)
        self._tlv = dict(tlv)
        self._fixed = {number: field.size for number, field in table.items() if not field.prefix_digits}

    def read(self, fields: Mapping[int, str]) -> Tags:
        nested = {
            number: read_tlv(number, fields[number], form)
            for number, form in self._tlv.items()
            if number in fields
        }
        tags: dict[str, str] = {}
        for tag, place in self._places.items():
            value = _found(place, fields, nested)
            if value is None:
                continue
            if place.equals is not None:
                if value != place.equals:
                    if tag == elements.TAG_FINAL:
                        tags[tag] = elements.write_final(False)
                    continue
                value = _EQUAL_VALUES.get(tag, "1")
            tags[tag] = Masked(value) if tag in _SECRET else value
        return tags

    def write(self, fields: dict[int, str], tags: Tags) -> None:
        nested: dict[int, dict[str, str]] = {}
        for tag, value in tags.items():
            place = self._places.get(tag)
            if place is None:
                if tag in _INDISPENSABLE:
                    raise ElementError(48, "holds a fact that has no place in the profile")
                continue
            text = value[:] if place.equals is None else place.equals
            if place.tag is not None:
                nested.setdefault(place.field, {})[place.tag] = text
            else:
                fields[place.field] = self._placed(fields.get(place.field, ""), place, text)
        for number, values in nested.items():
            fields[number] = Masked(fields.get(number, "")[:] + write_tlv(number, values, self._tlv[number]))

    def _placed(self, current: str, place: Place, text: str) -> str:
        """``current`` with ``text`` at its place. Fields of a fixed length are padded with spaces."""
        if place.at is not None and place.length is not None:
            if len(text) > place.length:
                raise ElementError(place.field, "is too short for a value")
            stop = place.at + place.length
            current = current[:].ljust(stop)
            text = current[: place.at] + text.ljust(place.length) + current[stop:]
        return Masked(text.ljust(self._fixed.get(place.field, 0)))


def read_tlv(number: int, text: str, form: TlvFormat) -> dict[str, str]:
    """The values of a field by their tags."""
    values: dict[str, str] = {}
    at, end = 0, len(text)
    while at < end:
        start = at + form.tag_chars + form.length_chars
        tag, length = text[at : at + form.tag_chars], text[at + form.tag_chars : start]
        if start > end or not length.isdecimal():
            raise ElementError(number, f"has no tag and length at {at}")
        at = start + int(length)
        if at > end:
            raise ElementError(number, f"is cut short at {start}")
        if tag in values:
            raise ElementError(number, "repeats a tag")
        values[tag] = text[start:at]
    return values


def write_tlv(number: int, values: Mapping[str, str], form: TlvFormat) -> str:
    """A field with ``values`` by their tags, in their order."""
    parts: list[str] = []
    for tag, value in values.items():
        if len(tag) != form.tag_chars or len(value) >= 10**form.length_chars:
            raise ElementError(number, "holds a tag that does not fit")
        parts += (tag, f"{len(value):0{form.length_chars}d}", value)
    return "".join(parts)


def secret_fields(places: Mapping[str, Place]) -> Iterable[int]:
    """Fields that hold a CVV2 or an authentication value."""
    return {place.field for tag, place in places.items() if tag in _SECRET}


def _found(place: Place, fields: Mapping[int, str], nested: Mapping[int, Mapping[str, str]]) -> str | None:
    """The text at ``place`` without trailing spaces; ``None`` if it is absent or blank."""
    inside = nested.get(place.field, {})
    text = fields.get(place.field) if place.tag is None else inside.get(place.tag)
    if text is None:
        return None
    if place.at is not None and place.length is not None:
        text = text[place.at : place.at + place.length]
    return text[:].rstrip() or None
