"""A profile: everything that distinguishes the messages of one network from those of another.

A profile is a value. The edge, the sessions and the simulated network get it as an argument; functions of
this package take it wherever a network may differ. Inside, messages have the form of the 1987 version:
``to_canonical`` and ``from_canonical`` translate. Profiles are made by ``profiles``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

import msgspec

from engine.instant import DAY_MS, to_datetime
from engine.iso8583 import edition_1993
from engine.iso8583.card_data import Verification
from engine.iso8583.codec import Codec
from engine.iso8583.elements import TAG_OPERATION, ElementError, read_private, write_private
from engine.iso8583.framing import Framing
from engine.iso8583.header import MessageHeader
from engine.iso8583.identity import IdentityRule, fingerprint
from engine.iso8583.message import Message
from engine.iso8583.message_types import MTIS_1987, Function, MessageTypes, Version
from engine.iso8583.private_data import PrivateData, Tags
from engine.iso8583.response_codes import ResponseCodes

Increments = Literal["request", "advice"]

_RESPONSE_CODE: Final = 39
_PRIVATE: Final = 48
"""The element of the private data in messages of the canonical form."""
_CANONICAL_TYPES: Final = MessageTypes("1987", MTIS_1987)


class Profile(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The dialect of one network (``ops/docs/WIRE.md``, "Writing a profile"). Compared by identity."""

    name: str
    version: Version
    framing: Framing
    header: MessageHeader | None
    codec: Codec
    decode: Callable[[bytes], Message]
    """``codec.decode``: the message in a payload, a frame without its length header."""
    encode: Callable[[Message], bytes]
    """``codec.encode``."""
    messages: MessageTypes
    private: PrivateData
    codes: ResponseCodes
    identity: IdentityRule
    verification: Verification
    """The treatment of PIN blocks, EMV data and expiries."""
    increments: Increments
    """Whether an increment is an authorization request or an advice."""
    echoed: tuple[int, ...]
    """Fields of the request that every answer repeats."""
    mac_bytes: int
    """Bytes that a MAC (DE64, DE128) occupies at the end of a message; 0 without MACs."""
    is_canonical: bool
    """Whether messages of this profile have the canonical form, so that nothing is translated."""

    @property
    def header_bytes(self) -> int:
        """Bytes before the MTI."""
        return 0 if self.header is None else len(self.header.value)

    def function(self, mti: str) -> Function | None:
        """The function of a request; ``None`` if the profile has no such message."""
        known = self.messages.requests.get(mti)
        return None if known is None else known.function

    def fingerprint(self, message: Message, key: bytes) -> bytes:
        """``identity.fingerprint`` of a request."""
        return fingerprint(message, key, message.mti in self.messages.presentments)

    def to_canonical(self, message: Message) -> tuple[Message, Tags]:
        """A request in the form of the 1987 version, and its private facts. Raises ``ElementError``."""
        tags = self.private.read(message.fields)
        if self.is_canonical:
            return message, tags
        known = self.messages.requests.get(message.mti)
        fields = dict(message.fields)
        if self.version == "1993":
            fields, tags = edition_1993.to_1987(fields, tags)
        if _RESPONSE_CODE in fields:
            fields[_RESPONSE_CODE] = self.codes.canonical(fields[_RESPONSE_CODE])
        return Message(f"0{message.mti[1:]}" if known is None else known.canonical, fields), tags

    def read_answer(self, message: Message) -> Message:
        """An answer in the form of the 1987 version, with its private facts in DE48. Raises
        ``ElementError``."""
        if self.is_canonical:
            return message
        canonical, tags = self.to_canonical(message)
        fields = dict(canonical.fields)
        fields.pop(_PRIVATE, None)
        if tags:
            fields[_PRIVATE] = write_private(dict(tags))
        return Message(self.messages.canonical_answer(message.mti), fields)

    def own_request(self, canonical: Message, now_ms: int) -> Message:
        """A request of this profile from one in the form of the 1987 version. ``now_ms`` gives the year.
        Raises ``ElementError`` for a message that this network does not have."""
        if self.is_canonical:
            return canonical
        function = _CANONICAL_TYPES.requests[canonical.mti].function
        fields = dict(canonical.fields)
        private = fields.pop(_PRIVATE, None)
        tags = {} if private is None else read_private(private)
        if TAG_OPERATION in tags and function == "authorization" and self.increments == "advice":
            raise ElementError(48, "asks for an increment, which this network advises")
        if self.version == "1993":
            fields = edition_1993.from_1987(fields, tags, function, _year_of(fields, now_ms))
        if _RESPONSE_CODE in fields:
            code = canonical.fields[_RESPONSE_CODE]
            fields[_RESPONSE_CODE] = self.codes.own(code, function)
        self.private.write(fields, tags)
        return Message(self.messages.own_mti(canonical.mti), fields)


def _year_of(fields: Mapping[int, str], now_ms: int) -> int:
    """The year of a message: its last digit begins DE37. Without a DE37, the current year."""
    latest = to_datetime(now_ms + DAY_MS).year
    digit = fields.get(37, "")[:1]
    if not digit.isdecimal():
        return to_datetime(now_ms).year
    return latest - (latest - int(digit)) % 10
