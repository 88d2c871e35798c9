"""The identity-verification component as the vision host sees it.

The host passes requests on and maps answers back unchanged; what is accepted is decided behind
this interface.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec


class Answer(msgspec.Struct, frozen=True):
    """What the component answers: ``body`` where ``status`` is 200, else ``code`` (of the component's own
    vocabulary, in snake case).
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
        """What the session is for and what it still needs; nothing personal."""
        ...

    async def attach(self, capture_session_token: str, name: str, picture: bytes) -> Answer:
        """Take the picture called ``name`` (``document_evidence``, ``selfie``) into custody. 409 with
        ``document_type_missing``.
        """
        ...
