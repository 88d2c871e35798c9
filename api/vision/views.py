"""Response models for the description of the vision host."""

from __future__ import annotations

from typing import Literal

from api.http.fields import Id, Instant
from api.http.validation import View
from engine.kyc.flows import DocumentType

Evidence = Literal["document_evidence", "selfie"]


class BoundView(View):
    """The document type is bound to the session."""

    check_id: Id
    document_type: DocumentType
    bound: Literal[True]


class SessionView(View):
    """An open capture session; no personal data."""

    check_id: Id
    kind: Literal["flow", "single"]
    document_types: list[DocumentType]
    """Document types that the programme accepts."""
    document_type: DocumentType | None
    """The chosen document type."""
    locked: bool
    """Whether a picture is attached; then the document type cannot change."""
    awaiting: list[Evidence]
    """Pictures still to send."""
    expires_at: Instant


class AttachedView(View):
    """The picture is in custody."""

    check_id: Id
    attached: Evidence
    awaiting: list[Evidence]
