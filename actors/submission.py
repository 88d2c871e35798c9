"""A command on its way: what travels from a router to a host beside the command itself."""

from __future__ import annotations

from typing import Any

import msgspec

from engine.commands import Command
from engine.replies import Claim, Reply


class Submission(msgspec.Struct, frozen=True, omit_defaults=True):
    """``remaining_ms`` counts from the moment of sending: clocks of two machines are never compared.

    ``claim`` is the caller's idempotency key, to be committed with the effect; ``presentation`` are members
    of the response that the owner does not keep (a cardholder's name, a secret shown once): they are merged
    into ``Done.body`` and never journaled.
    """

    command: Command
    remaining_ms: int
    claim: Claim | None = None
    presentation: dict[str, Any] | None = None
    ticket: int = 0
    """By which the router knows a reply that comes after its batch."""
    trace: str | None = None
    """What logs call the request: its id at the API, its retrieval reference on the wire."""


class Parcel(msgspec.Struct, frozen=True, array_like=True):
    """What one call carries to a host."""

    caller: str
    """Whose mailbox gets deferred replies."""
    submissions: list[Submission]


encode_parcel = msgspec.msgpack.Encoder().encode
decode_parcel = msgspec.msgpack.Decoder(Parcel).decode
encode_replies = msgspec.msgpack.Encoder().encode
decode_replies = msgspec.msgpack.Decoder(list[Reply]).decode
encode_collected = msgspec.msgpack.Encoder().encode
decode_collected = msgspec.msgpack.Decoder(list[tuple[int, Reply]]).decode
