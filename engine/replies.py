"""What owners answer. A reply leaves its owner only after the commit that makes it true."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from engine.programmes.stand_in import Grant


class IdempotencyClaim(msgspec.Struct, frozen=True):
    """An ``Idempotency-Key`` as the owner sees it: keyed digests of its scope and of the canonical request
    body (32 bytes each)."""

    key_digest: bytes
    fingerprint: bytes


class WireAnswer(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="reply", tag="answer", gc=False):
    """The answer to a wire command: all that the network edge needs to build the response message.

    A repeated message gets the stored answer, so its response is the same bytes (wire case 1).
    """

    response_code: str
    """DE39."""
    authorization_id: str
    approval_code: str | None = None
    """DE38, on approvals."""
    approved_minor: int = 0
    """DE4 of the response; the requested amount stands in DE54 when this is smaller."""
    replayed: bool = False


class Done(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="reply", tag="done"):
    """A REST command succeeded; ``body`` is the public representation (personal data left out)."""

    status: int
    body: dict[str, Any]
    replayed: bool = False


class Problem(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="reply", tag="problem"):
    """A REST command was refused for a reason of the domain; nothing has changed. ``slug`` names the
    problem page."""

    status: int
    slug: str
    detail: str


class Granted(msgspec.Struct, frozen=True, tag_field="reply", tag="granted"):
    """What a programme's owner says to those who want to stand in, in the order in which they asked."""

    grants: tuple[Grant, ...]


class Deferred(msgspec.Struct, frozen=True, tag_field="reply", tag="deferred"):
    """The reply needs longer than its neighbours' and will be handed out by itself."""


Reason = Literal["deadline", "overloaded", "unavailable", "not_owner", "faulty", "key_reused"]


class NotExecuted(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="reply", tag="not_executed"):
    """The command has certainly had no effect (``deadline``, ``overloaded``, ``not_owner``,
    ``key_reused``), or cannot be said to have had one yet (``unavailable``: ask again by the same command
    key), or made its owner fail (``faulty``)."""

    reason: Reason


Reply = WireAnswer | Done | Problem | Granted | NotExecuted | Deferred


def body_bytes(body: dict[str, Any]) -> bytes:
    """The exact JSON bytes of a response body: what the API sends and what an idempotency row keeps for
    replays."""
    return msgspec.json.encode(body)
