"""Identity verification. The applicant's side, the capture page, is no part of it: that takes no token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack

from stanchion import inputs, records
from stanchion.operations import PAGE_SIZE, Ask, Family, Way, operation, rows


class Kyc(Family[Way]):
    """KYC checks. What is submitted goes into custody and is never shown again."""

    @operation("POST", "/v1/kyc/checks")
    def create(
        self, *, cardholder_id: str, flow_key: records.KycFlow, idempotency_key: str | None = None
    ) -> Ask[records.KycCheck]:
        """Begin a check of a cardholder; ``awaiting`` names what it needs."""
        return Ask(body={"cardholder_id": cardholder_id, "flow_key": flow_key}, key=idempotency_key)

    @operation("GET", "/v1/kyc/checks/{id}")
    def get(self, id_: str) -> Ask[records.KycCheck]:
        """One check."""
        return Ask(id_)

    @rows("/v1/kyc/checks")
    def list(
        self,
        *,
        cardholder_id: str | None = None,
        state: records.KycState | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Ask[records.KycCheck]:
        """All checks, or those of a cardholder or a state."""
        return Ask(query={"cardholder_id": cardholder_id, "state": state, "limit": page_size})

    @operation("POST", "/v1/kyc/checks/{id}/submissions")
    def submit(
        self, id_: str, *, idempotency_key: str | None = None, **fields: Unpack[inputs.SubmissionFields]
    ) -> Ask[records.KycCheck]:
        """Attach data of the applicant, all at once or bit by bit; the answer has the new state."""
        return Ask(id_, body=fields, key=idempotency_key)

    @operation("POST", "/v1/kyc/checks/{id}/capture-sessions")
    def create_capture_session(
        self,
        id_: str,
        *,
        kind: Literal["flow", "single"],
        document_type: records.DocumentType | None = None,
        idempotency_key: str | None = None,
    ) -> Ask[records.CaptureSession]:
        """An hour in which whoever opens ``url`` may choose a document and send two pictures."""
        chosen = {} if document_type is None else {"document_type": document_type}
        return Ask(id_, body={"kind": kind, **chosen}, key=idempotency_key)

    @operation("POST", "/v1/kyc/checks/{id}/review")
    def review(
        self,
        id_: str,
        outcome: Literal["passed", "failed", "more_input"],
        *,
        reason_codes: Sequence[str] = (),
        awaiting: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> Ask[records.KycCheck]:
        """Decide on a check in review; only administrators may. ``awaiting``: what to ask for again, with
        ``more_input`` alone."""
        body = {"outcome": outcome, "reason_codes": [*reason_codes], "awaiting": [*awaiting]}
        return Ask(id_, body=body, key=idempotency_key)
