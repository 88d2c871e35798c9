"""The interface between the vision host and the identity-verification component.

The host passes requests and answers on unchanged; the component alone decides what is valid.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec


class Answer(msgspec.Struct, frozen=True):
    """An answer of the component: ``body`` with ``status`` 200, otherwise ``code``, which is from the
    component's own vocabulary in snake case.
    """

    status: int
    body: dict[str, Any] = {}
    code: str | None = None


NO_SESSION = Answer(404)


class IdentityVerification(Protocol):
    """Every method verifies the token itself: an unknown, expired or ended session is ``NO_SESSION``."""

    async def set_document_type(self, capture_session_token: str, document_type: str) -> Answer:
        """Bind a document class. 400 with ``class_select_not_supported``, ``document_class_locked``,
        ``document_class_unavailable`` or ``document_class_not_accepted``.
        """
        ...

    async def describe(self, capture_session_token: str) -> Answer:
        """The session's kind, document types and awaited pictures; no personal data."""
        ...

    async def attach(self, capture_session_token: str, name: str, picture: bytes) -> Answer:
        """Take the picture called ``name`` (``document_evidence``, ``selfie``) into custody. 409 with
        ``document_type_missing``.
        """
        ...
