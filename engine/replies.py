"""Replies of owners. A reply leaves its owner only after the commit of its command."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from engine.programmes.stand_in import Grant


class IdempotencyClaim(msgspec.Struct, frozen=True):
    """An ``Idempotency-Key``: keyed digests of its scope and of the canonical request body (32 bytes
    each)."""

    key_digest: bytes
    fingerprint: bytes


class WireAnswer(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="reply", tag="answer", gc=False):
    """The answer to a wire command, from which the network edge builds the response message.

    A repeated message gets the stored answer, so its response has the same bytes.
    """

    response_code: str
    """DE39."""
    authorization_id: str
    approval_code: str | None = None
    """DE38, on approvals."""
    approved_minor: int = 0
    """DE4 of the response; if it is smaller than the requested amount, that is in DE54."""
    replayed: bool = False
    reason: str | None = None
    """The reason of a decline, for which a link's profile may have a code of its own."""


class Done(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="reply", tag="done"):
    """A REST command succeeded; ``body`` is the public representation without personal data."""

    status: int
    body: dict[str, Any]
    replayed: bool = False


class Problem(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="reply", tag="problem"):
    """A REST command was refused by a rule of the domain and changed nothing. ``slug`` names the problem
    page."""

    status: int
    slug: str
    detail: str


class Granted(msgspec.Struct, frozen=True, tag_field="reply", tag="granted"):
    """The grants of a programme's owner, in the order of the requests."""

    grants: tuple[Grant, ...]


class Deferred(msgspec.Struct, frozen=True, tag_field="reply", tag="deferred"):
    """The reply takes longer than the others of its batch and is sent separately."""


Reason = Literal["deadline", "overloaded", "unavailable", "not_owner", "faulty", "key_reused"]


class NotExecuted(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="reply", tag="not_executed"):
    """The command had no effect (``deadline``, ``overloaded``, ``not_owner``, ``key_reused``), its outcome is
    unknown (``unavailable``: retry with the same command key), or its execution raised an exception
    (``faulty``)."""

    reason: Reason


Reply = WireAnswer | Done | Problem | Granted | NotExecuted | Deferred


def body_bytes(body: dict[str, Any]) -> bytes:
    """The exact JSON bytes of a response body, which the API sends and the idempotency row stores."""
    return msgspec.json.encode(body)
