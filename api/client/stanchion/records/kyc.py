"""Identity verification."""

from __future__ import annotations

from typing import Literal

from stanchion.compat import NotRequired, TypedDict

KycFlow = Literal["basic", "document", "full"]
KycState = Literal["pending", "in_review", "passed", "failed", "expired"]
DocumentType = Literal["passport", "national_id", "residence_permit", "driving_licence"]


class KycCheck(TypedDict):
    """A check of a cardholder's identity; the API never returns submitted data."""

    id: str
    cardholder_id: str
    flow_key: KycFlow
    state: KycState
    awaiting: list[str]
    reason_codes: list[str]
    document_type: NotRequired[DocumentType]
    created_at: str
    completed_at: str | None
    expires_at: str | None


class CaptureSession(TypedDict):
    """A session of one hour on the capture page. Give ``url``, which contains the token, only to the
    applicant."""

    id: str
    check_id: str
    kind: Literal["flow", "single"]
    capture_session_token: str
    url: str
    expires_at: str
