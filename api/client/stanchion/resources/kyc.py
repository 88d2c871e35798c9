"""Identity verification. The capture page for applicants is not included, because it uses no API token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from stanchion import inputs, records
from stanchion.compat import Unpack
from stanchion.operations import PAGE_SIZE, AnyTransport, Call, Resource, operation, rows


class Kyc(Resource[AnyTransport]):
    """KYC checks. Submitted data go into custody; the API never returns them."""

    @operation("POST", "/v1/kyc/checks")
    def create(
        self, *, cardholder_id: str, flow_key: records.KycFlow, idempotency_key: str | None = None
    ) -> Call[records.KycCheck]:
        """Begin a check of a cardholder; ``awaiting`` lists the missing inputs."""
        return Call(body={"cardholder_id": cardholder_id, "flow_key": flow_key}, key=idempotency_key)

    @operation("GET", "/v1/kyc/checks/{id}")
    def get(self, id_: str) -> Call[records.KycCheck]:
        """One check."""
        return Call(id_)

    @rows("/v1/kyc/checks")
    def list(
        self,
        *,
        cardholder_id: str | None = None,
        state: records.KycState | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Call[records.KycCheck]:
        """All checks, or those with a cardholder or a state."""
        return Call(query={"cardholder_id": cardholder_id, "state": state, "limit": page_size})

    @operation("POST", "/v1/kyc/checks/{id}/submissions")
    def submit(
        self, id_: str, *, idempotency_key: str | None = None, **fields: Unpack[inputs.SubmissionFields]
    ) -> Call[records.KycCheck]:
        """Submit data of the applicant, all at once or in parts; the answer has the new state."""
        return Call(id_, body=fields, key=idempotency_key)

    @operation("POST", "/v1/kyc/checks/{id}/capture-sessions")
    def create_capture_session(
        self,
        id_: str,
        *,
        kind: Literal["flow", "single"],
        document_type: records.DocumentType | None = None,
        idempotency_key: str | None = None,
    ) -> Call[records.CaptureSession]:
        """Open a session of one hour: the applicant chooses a document at ``url`` and sends two pictures."""
        chosen = {} if document_type is None else {"document_type": document_type}
        return Call(id_, body={"kind": kind, **chosen}, key=idempotency_key)

    @operation("POST", "/v1/kyc/checks/{id}/review")
    def review(
        self,
        id_: str,
        outcome: Literal["passed", "failed", "more_input"],
        *,
        reason_codes: Sequence[str] = (),
        awaiting: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> Call[records.KycCheck]:
        """Decide on a check in review; requires the role ``admin``. ``awaiting`` lists the inputs to request
        again and is valid only with ``more_input``."""
        body = {"outcome": outcome, "reason_codes": [*reason_codes], "awaiting": [*awaiting]}
        return Call(id_, body=body, key=idempotency_key)
