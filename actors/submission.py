"""Encoding of command batches and replies between a router and a shard host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from engine.acts import Act
from engine.commands import Command
from engine.replies import IdempotencyClaim, NotExecuted, Reply


class Submission(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command with the data that a router sends beside it."""

    command: Command
    remaining_ms: int
    """Time until the deadline, counted from the moment of sending. Clocks of two machines are never
    compared."""
    claim: IdempotencyClaim | None = None
    """The caller's idempotency key, which is committed with the effect."""
    presentation: dict[str, Any] | None = None
    """Members of the response that the owner does not keep (a cardholder's name, a secret shown once). They
    are merged into ``Done.body`` and never journaled."""
    ticket: int = 0
    """Identifies the command of a deferred reply in the router."""
    trace: str | None = None
    """The request's name in logs: its id at the API, its retrieval reference on the wire."""
    repeat: bool = False
    """Whether the command may have been executed before: the network has sent it before, or it has a claim
    and an earlier owner had it. The owner then looks for a stored reply in the journal before it decides, so
    that the repeat does not cost its batch a refused commit."""
    act: Act | None = None
    """The administrative act that the command carries out; its row commits with the effect."""
    traceparent: str | None = None
    """The router's span (``actors.tracing``), if the router traces."""


class CommandBatch(msgspec.Struct, frozen=True, array_like=True):
    """The payload of one call to a host."""

    caller: str
    """The router; names the mailbox for its deferred replies."""
    submissions: list[Submission]


class _RawCommandBatch(msgspec.Struct, frozen=True, array_like=True):
    """A batch whose submissions are decoded one by one."""

    caller: str
    submissions: list[msgspec.Raw]


encode_batch = msgspec.msgpack.Encoder().encode
encode_replies = msgspec.msgpack.Encoder().encode
encode_collected = msgspec.msgpack.Encoder().encode
_decode_batch = msgspec.msgpack.Decoder(CommandBatch).decode
_decode_raw_batch = msgspec.msgpack.Decoder(_RawCommandBatch).decode
_decode_submission = msgspec.msgpack.Decoder(Submission).decode
_decode_replies = msgspec.msgpack.Decoder(list[Reply]).decode
_decode_raw_replies = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_decode_reply: Callable[[msgspec.Raw], Reply] = msgspec.msgpack.Decoder(Reply).decode
_decode_collected = msgspec.msgpack.Decoder(list[tuple[int, Reply]]).decode
_decode_raw_collected = msgspec.msgpack.Decoder(list[tuple[int, msgspec.Raw]]).decode


def decode_batch(payload: bytes) -> tuple[str, list[Submission | None]]:
    """Caller and submissions of a batch. ``None`` stands for a submission that this release cannot decode;
    the others of its batch are executed."""
    try:
        batch = _decode_batch(payload)
    except msgspec.DecodeError:
        raw = _decode_raw_batch(payload)
        return raw.caller, [_decoded_or_none(each) for each in raw.submissions]
    return batch.caller, list(batch.submissions)


def decode_replies(payload: bytes) -> list[Reply]:
    """Replies in the order of their submissions. A reply that this release cannot decode becomes
    ``unavailable``: its outcome is unknown."""
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
