"""A command on its way: what travels from a router to a host beside the command itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from engine.commands import Command
from engine.replies import IdempotencyClaim, NotExecuted, Reply


class Submission(msgspec.Struct, frozen=True, omit_defaults=True):
    """``remaining_ms`` counts from the moment of sending: clocks of two machines are never compared.

    ``claim`` is the caller's idempotency key, to be committed with the effect; ``presentation`` are members
    of the response that the owner does not keep (a cardholder's name, a secret shown once): they are merged
    into ``Done.body`` and never journaled.
    """

    command: Command
    remaining_ms: int
    claim: IdempotencyClaim | None = None
    presentation: dict[str, Any] | None = None
    ticket: int = 0
    """By which the router knows a reply that comes after its batch."""
    trace: str | None = None
    """What logs call the request: its id at the API, its retrieval reference on the wire."""
    repeat: bool = False
    """Whether its network has sent the command before: the owner then looks for a stored reply in the journal
    before it decides, so that no commit is refused for it."""


class Parcel(msgspec.Struct, frozen=True, array_like=True):
    """What one call carries to a host."""

    caller: str
    """Whose mailbox gets deferred replies."""
    submissions: list[Submission]


class _RawParcel(msgspec.Struct, frozen=True, array_like=True):
    """A parcel whose submissions are decoded one by one."""

    caller: str
    submissions: list[msgspec.Raw]


encode_parcel = msgspec.msgpack.Encoder().encode
encode_replies = msgspec.msgpack.Encoder().encode
encode_collected = msgspec.msgpack.Encoder().encode
_decode_parcel = msgspec.msgpack.Decoder(Parcel).decode
_decode_raw_parcel = msgspec.msgpack.Decoder(_RawParcel).decode
_decode_submission = msgspec.msgpack.Decoder(Submission).decode
_decode_replies = msgspec.msgpack.Decoder(list[Reply]).decode
_decode_raw_replies = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_decode_reply: Callable[[msgspec.Raw], Reply] = msgspec.msgpack.Decoder(Reply).decode
_decode_collected = msgspec.msgpack.Decoder(list[tuple[int, Reply]]).decode
_decode_raw_collected = msgspec.msgpack.Decoder(list[tuple[int, msgspec.Raw]]).decode


def decode_parcel(payload: bytes) -> tuple[str, list[Submission | None]]:
    """Caller and submissions of a parcel; ``None`` stands for a submission that this release cannot decode.
    One of an unknown kind must not cost the others of its batch."""
    try:
        parcel = _decode_parcel(payload)
    except msgspec.DecodeError:
        raw = _decode_raw_parcel(payload)
        return raw.caller, [_decoded_or_none(each) for each in raw.submissions]
    return parcel.caller, list(parcel.submissions)


def decode_replies(payload: bytes) -> list[Reply]:
    """Replies in the order of their submissions. The outcome of a reply that this release cannot decode is
    not known."""
    try:
        return _decode_replies(payload)
    except msgspec.DecodeError:
        return [_decoded_or_unknown(each) for each in _decode_raw_replies(payload)]


def decode_collected(payload: bytes) -> list[tuple[int, Reply]]:
    """Deferred replies by ticket; see ``decode_replies``."""
    try:
        return _decode_collected(payload)
    except msgspec.DecodeError:
        raw = _decode_raw_collected(payload)
        return [(ticket, _decoded_or_unknown(each)) for ticket, each in raw]


def _decoded_or_none(raw: msgspec.Raw) -> Submission | None:
    try:
        return _decode_submission(raw)
    except msgspec.DecodeError:
        return None


def _decoded_or_unknown(raw: msgspec.Raw) -> Reply:
    try:
        return _decode_reply(raw)
    except msgspec.DecodeError:
        return NotExecuted("unavailable")
