"""Public representation of checks: the state and the awaited inputs, never submitted data."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from api.http.fields import Id, Instant
from api.http.validation import View
from api.kyc.cases import Check
from api.kyc.inputs import AwaitedInput
from engine.instant import to_text
from engine.kyc.facts import Reason
from engine.kyc.flows import DocumentType, Flow
from engine.kyc.states import State


class KycCheckView(View):
    """A KYC check. Submitted data are never shown; they are in custody, referenced by token."""

    id: Id
    cardholder_id: Id
    flow_key: Flow
    state: State
    awaiting: Annotated[list[AwaitedInput], Field(default_factory=list)]
    """Inputs still awaited, while the state is `pending`."""
    reason_codes: Annotated[list[Reason], Field(default_factory=list)]
    """Why the check failed, is in review, or awaits an input again."""
    document_type: Annotated[DocumentType, Field(default_factory=lambda: "passport")]
    """Absent until it is known."""
    created_at: Instant
    completed_at: Instant | None
    """When it passed, failed or expired."""
    expires_at: Instant | None
    """End of the time for inputs, or of the validity of a passed check."""


class CaptureSessionView(View):
    """A capture session. Its token is the only authorization that the capture page needs."""

    id: Id
    check_id: Id
    kind: Literal["flow", "single"]
    capture_session_token: str
    """Shown once; only its hash is stored."""
    url: str
    """The capture page, to be opened by the applicant. The token is in the fragment, which browsers do not
    send."""
    expires_at: Instant


def show(check: Check) -> dict[str, Any]:
    """The public representation of a check."""
    case = check.case
    chosen = {"document_type": case.document_type} if case.document_type else {}
    return {
        "id": case.id,
        "cardholder_id": check.cardholder_id,
        "flow_key": case.flow,
        "state": case.state,
        "awaiting": list(case.awaiting),
        "reason_codes": list(case.reason_codes),
        **chosen,
        "created_at": to_text(case.created_ms),
        "completed_at": _text(case.completed_ms),
        "expires_at": _text(case.expires_ms),
    }


def _text(at_ms: int | None) -> str | None:
    return None if at_ms is None else to_text(at_ms)
