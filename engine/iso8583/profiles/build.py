"""From the description of a profile to its value, with all checks.

``DescriptionError`` names the member of the description that is wrong, as a path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from engine.decline import APPROVED, APPROVED_PARTIALLY, DUPLICATE_CONFLICT, RESPONSE_CODES, VERIFIED
from engine.iso8583.card_data import Verification
from engine.iso8583.codec import (
    Codec,
    EncodeError,
    Encodings,
    Table,
    encoding_of,
    is_text_profile,
    text_size,
)
from engine.iso8583.elements import TAG_AUTHORIZATION_ID, ElementError
from engine.iso8583.formats import FieldFormat, read_format
from engine.iso8583.framing import Framing
from engine.iso8583.header import HeaderCodec, MessageHeader
from engine.iso8583.identity import IdentityRule
from engine.iso8583.message import Message
from engine.iso8583.message_types import MTIS_1987, MTIS_1993, MessageTypes, Version
from engine.iso8583.mixed_codec import MixedCodec
from engine.iso8583.private_data import TAGS_BY_FACT, MappedFacts, OwnTags, Place, PrivateData, secret_fields
from engine.iso8583.profile import Profile
from engine.iso8583.profiles.description import (
    ABSENT,
    CardDataPolicy,
    Codes,
    Description,
    Element,
    Frame,
    Header,
)
from engine.iso8583.response_codes import (
    ACCEPTED_1993,
    ACTION_CODES_1993,
    OTHER_CODES,
    ResponseCodes,
)
from engine.iso8583.tables import ELEMENTS_1987, ELEMENTS_1993, with_secrets
from engine.iso8583.text_codec import TextCodec
from engine.iso8583.values import value_codec

Path = tuple[str, ...]

_TABLES: Final[Mapping[Version, Table]] = {"1987": ELEMENTS_1987, "1993": ELEMENTS_1993}
ECHOED_1987: Final = (2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 32, 33, 37, 41, 42, 49, 50, 51, 70)
ECHOED_1993: Final = (2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 24, 32, 33, 37, 41, 42, 49, 50, 51)
_REFERENCES: Final[Mapping[Version, tuple[int, ...]]] = {
    "1987": (7, 11, 32, 37, 70),
    "1993": (7, 11, 12, 24, 32, 37),
}
"""Fields by which a network matches an answer to its request."""
_IDENTITY: Final = (7, 11, 32)
_FURTHER: Final = (33, 41, 42)
_USED: Final[Mapping[Version, tuple[int, ...]]] = {
    "1987": (2, 3, 4, 7, 11, 32, 37, 38, 39, 43, 49, 54, 70),
    "1993": (2, 3, 4, 7, 11, 12, 24, 26, 32, 37, 38, 39, 43, 49, 54, 56),
}
"""Elements that the engine reads or writes in every network."""
_HEADER_BYTES_MAX: Final = 64
_CODES: Final = (
    *RESPONSE_CODES.values(),
    APPROVED,
    APPROVED_PARTIALLY,
    VERIFIED,
    DUPLICATE_CONFLICT,
    *OTHER_CODES,
)
"""Every code that the engine answers with."""
_AUTHORIZATION_ID: Final = "01900000-0000-7000-8000-000000000000"
_CODE: Final = 39


class DescriptionError(ValueError):
    """A member of a description is wrong."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{'.'.join(path)}: {problem}")
        self.path = path
        self.problem = problem


def build(description: Description) -> Profile:
    """The profile that ``description`` describes. Raises ``DescriptionError``."""
    version = description.version or "1987"
    encodings = description.encodings or Encodings()
    table = _table(description, version, encodings)
    header = _header(description.header)
    codec: Codec = TextCodec(table) if is_text_profile(table, encodings) else MixedCodec(table, encodings)
    messages = _messages(description, version)
    private = _private(description, table)
    codes = _codes(description, version, table)
    if header is not None:
        codec = HeaderCodec(codec, header)
    profile = Profile(
        name=description.name,
        version=version,
        framing=_framing(description.frame or Frame(), header),
        header=header,
        codec=codec,
        decode=codec.decode,
        encode=codec.encode,
        messages=messages,
        private=private,
        codes=codes,
        identity=_identity(description),
        verification=_verification(description.verification or CardDataPolicy()),
        increments=description.increments or "request",
        echoed=_echoed(description, version, table),
        mac_bytes=_mac_bytes(table, encodings),
        is_canonical=version == "1987"
        and isinstance(private, OwnTags)
        and description.response_codes is None
        and description.messages is None
        and description.increments != "advice",
    )
    _check_answers(profile)
    return profile


def _verification(policy: CardDataPolicy) -> Verification:
    return Verification(pin=policy.pin, mac=policy.mac, chip=policy.chip, expiry=policy.expiry)


def _mac_bytes(table: Table, encodings: Encodings) -> int:
    mac = table.get(128)
    if mac is None:
        return 0
    return value_codec(encoding_of(mac, encodings), text=encodings.text).bytes_of(text_size(mac))


def _check_answers(profile: Profile) -> None:
    """An answer that cannot be encoded would be lost after its commit, so each one is tried here."""
    fields = {4: "0" * 12, 38: "A1B2C3", 54: "0057978D" + "0" * 12}
    codes = sorted({profile.codes.own(code, function) for code in _CODES for function in MTIS_1987})
    try:
        profile.private.write(fields, {TAG_AUTHORIZATION_ID: _AUTHORIZATION_ID})
        for code in {*codes, *profile.codes.codes}:
            profile.encode(Message(f"{profile.messages.authorizations[0][:2]}10", {**fields, _CODE: code}))
    except ElementError as error:
        raise DescriptionError(("private", "authorization_id"), error.problem) from None
    except EncodeError as error:
        member = error.field.removeprefix("DE")
        raise DescriptionError(("elements", member), f"cannot carry an answer: {error.problem}") from None


def _table(description: Description, version: Version, encodings: Encodings) -> dict[int, FieldFormat]:
    table = dict(_TABLES[version])
    for key, element in description.elements.items():
        path = ("elements", key)
        if not (key.isascii() and key.isdecimal()) or not 2 <= int(key) <= encodings.field_max:
            raise DescriptionError(path, f"is not a field from 2 to {encodings.field_max}")
        number = int(key)
        if number == 65:
            raise DescriptionError(path, "is a bitmap")
        if element.format == ABSENT:
            table.pop(number, None)
        else:
            table[number] = _element(number, element, table.get(number), path)
    for number in _USED[version]:
        if number not in table:
            raise DescriptionError(("elements", str(number)), "is needed in every profile")
    return with_secrets(table, secret_fields(_places(description)))


def _element(number: int, element: Element, known: FieldFormat | None, path: Path) -> FieldFormat:
    if element.format is not None:
        try:
            read = read_format(number, element.format, f"Element {number}" if known is None else known.name)
        except ValueError as problem:
            raise DescriptionError((*path, "format"), str(problem)) from None
        known = read if known is None else msgspec.structs.replace(read, secret=known.secret)
    if known is None:
        raise DescriptionError(path, "has no format, and the version has no such element")
    encoding = element.encoding or known.encoding
    if (encoding in ("raw", "hex")) != (known.kind == "b") and encoding is not None:
        raise DescriptionError((*path, "encoding"), f"does not suit the format of element {number}")
    if encoding in ("bcd-right", "bcd-left") and known.kind not in ("n", "z"):
        raise DescriptionError((*path, "encoding"), "packs digits, and the format allows other characters")
    return msgspec.structs.replace(
        known,
        encoding=encoding,
        length_encoding=element.length or known.length_encoding,
        counts=element.counts or known.counts,
        secret=known.secret if element.secret is None else element.secret or known.secret,
    )


def _header(header: Header | None) -> MessageHeader | None:
    if header is None or not header.value:
        return None
    try:
        value = bytes.fromhex(header.value)
    except ValueError:
        raise DescriptionError(("header", "value"), "is not pairs of hexadecimal digits") from None
    if len(value) > _HEADER_BYTES_MAX:
        raise DescriptionError(("header", "value"), f"has more than {_HEADER_BYTES_MAX} bytes")
    for first, second, size in header.swaps:
        low, high = sorted((first, second))
        if low < 0 or size < 1 or low + size > high or high + size > len(value):
            raise DescriptionError(("header", "swaps"), "names ids that overlap or leave the header")
    return MessageHeader(value, header.swaps)


def _framing(frame: Frame, header: MessageHeader | None) -> Framing:
    if frame.length != "in-header":
        return Framing(frame.length)
    size = 0 if header is None else len(header.value)
    if not 1 <= frame.length_bytes <= 4:
        raise DescriptionError(("frame", "length_bytes"), "is not between 1 and 4")
    if frame.length_at < 0 or frame.length_at + frame.length_bytes > size:
        raise DescriptionError(("frame", "length_at"), f"is outside the header of {size} bytes")
    return Framing("in-header", size, frame.length_at, frame.length_bytes, frame.counts_header)


def _messages(description: Description, version: Version) -> MessageTypes:
    mtis = MTIS_1987 if version == "1987" else MTIS_1993
    if description.messages is not None:
        mtis = description.messages
        for function in MTIS_1987:
            if not mtis.get(function):
                raise DescriptionError(("messages", function), "has no MTI")
    try:
        return MessageTypes(version, mtis)
    except ValueError as problem:
        raise DescriptionError(("messages",), str(problem)) from None


def _places(description: Description) -> dict[str, Place]:
    places: dict[str, Place] = {}
    for fact, place in (description.private or {}).items():
        if fact not in TAGS_BY_FACT:
            raise DescriptionError(("private", fact), f"is not one of {', '.join(TAGS_BY_FACT)}")
        places[TAGS_BY_FACT[fact]] = place
    return places


def _private(description: Description, table: Table) -> PrivateData:
    if description.private is None:
        return OwnTags()
    for fact, place in description.private.items():
        path = ("private", fact)
        if place.field not in table:
            raise DescriptionError(path, f"field {place.field} is not in the profile")
        if (place.tag is None) != (str(place.field) not in description.tlv):
            raise DescriptionError(path, f"needs a tag and [tlv.{place.field}], or neither")
        if place.tag is not None and len(place.tag) != description.tlv[str(place.field)].tag_chars:
            raise DescriptionError(path, "has a tag of another width than its field")
        if (place.at is None) != (place.length is None):
            raise DescriptionError(path, "needs both at and length, or neither")
        if place.at is not None and place.length is not None:
            size = table[place.field].size
            if place.at < 0 or place.length < 1 or place.at + place.length > size:
                raise DescriptionError(path, f"lies outside the {size} characters of field {place.field}")
    for key in description.tlv:
        if not key.isdecimal() or int(key) not in table:
            raise DescriptionError(("tlv", key), "is not a field of the profile")
    tlv = {int(key): form for key, form in description.tlv.items()}
    return MappedFacts(_places(description), tlv, table)


def _codes(description: Description, version: Version, table: Table) -> ResponseCodes:
    given = description.response_codes or Codes()
    for reason in given.reasons:
        if reason not in RESPONSE_CODES:
            raise DescriptionError(("response_codes", "reasons", reason), "is not a decline reason")
    base = ACTION_CODES_1993 if version == "1993" else {}
    accepted = dict(ACCEPTED_1993) if version == "1993" else {}
    codes = ResponseCodes({**base, **given.codes}, given.reasons, {**accepted, **given.accepted})
    wrong = sorted(code for code in codes.codes if len(code) != table[_CODE].size or not code.isascii())
    if wrong:
        raise DescriptionError(("response_codes",), f"{wrong[0]!r} does not fit field {_CODE}")
    return codes


def _identity(description: Description) -> IdentityRule:
    numbers = description.identity
    if numbers is None:
        return IdentityRule()
    if missing := [number for number in _IDENTITY if number not in numbers]:
        raise DescriptionError(("identity",), f"needs field {missing[0]}")
    further = tuple(sorted(set(numbers) - {*_IDENTITY, 37}))
    if wrong := [number for number in further if number not in _FURTHER]:
        raise DescriptionError(("identity",), f"field {wrong[0]} is not repeated by follow-ups")
    return IdentityRule(37 in numbers, further)


def _echoed(description: Description, version: Version, table: Table) -> tuple[int, ...]:
    echoed = description.echo
    if echoed is None:
        echoed = ECHOED_1987 if version == "1987" else ECHOED_1993
    for number in _REFERENCES[version]:
        if number not in echoed:
            raise DescriptionError(("echo",), f"needs field {number}, by which answers are matched")
    place = (description.private or {}).get("authorization_id", Place(_CODE))
    for number in echoed:
        if number not in table or number in (_CODE, place.field):
            raise DescriptionError(("echo",), f"field {number} cannot be repeated")
    return tuple(sorted(set(echoed)))
