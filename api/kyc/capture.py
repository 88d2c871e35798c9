"""Capture sessions: for one hour, the token allows its bearer to choose a document type and send pictures for
one check.
"""

from __future__ import annotations

import secrets
from typing import Final

from starlette.responses import Response

from api.database.pool import Connection
from api.http.answers import json_response
from api.http.problems import Refusal
from api.http.refusals import refusals
from api.kyc.advance import Step, add_inputs, find, write
from api.kyc.inputs import CaptureSessionInput
from api.kyc.policy import require_accepted
from api.kyc.views import CaptureSessionView
from api.operations.acts import Change, record_act
from api.operations.call import KeyedCall, PathId
from api.operations.idempotency import once
from api.operations.route import new_router
from engine.instant import to_datetime, to_text
from engine.limits import CAPTURE_SESSION_SECONDS, SECRET_BYTES

router = new_router("KYC")

TOKEN_PURPOSE: Final = "capture-session-token"
PAGE_PATH: Final = "/capture"

_INSERT: Final = """
    INSERT INTO kyc_capture_sessions (id, check_id, kind, token_digest, created_at, expires_at)
    VALUES ($1::uuid, $2::uuid, $3, $4, $5, $6)
"""


@router.post(
    "/v1/kyc/checks/{id}/capture-sessions",
    status_code=201,
    response_model=CaptureSessionView,
    responses=refusals("not-found", "kyc-not-collecting", "kyc-check-changed", "document-type-not-accepted"),
)
async def create_capture_session(check_id: PathId, given: CaptureSessionInput, call: KeyedCall) -> Response:
    """Open a hosted capture session for a collecting check.

    Send the applicant to `url` within an hour. The pictures go into custody and are never shown by the API.
    """
    services = call.services
    check = await find(services, call.caller, check_id)
    if not check.case.collecting:
        raise Refusal("kyc-not-collecting", f"The check is {check.case.state}.")
    step: Step | None = None
    if given.document_type is not None:
        await require_accepted(services, check, given.document_type)
        step = await add_inputs(services, check, {}, given.document_type)
    session_id, token = services.new_id(), f"cap_{secrets.token_urlsafe(SECRET_BYTES)}"
    now_ms = services.clock.now_ms()
    expires_ms = now_ms + CAPTURE_SESSION_SECONDS * 1000
    digest = services.vault.digest(TOKEN_PURPOSE, token.encode())

    async def work(connection: Connection) -> Response:
        if step is not None:
            await write(connection, services, step)
        at, until = to_datetime(now_ms), to_datetime(expires_ms)
        await connection.execute(_INSERT, session_id, check.id, given.kind, digest, at, until)
        session = {"check_id": check.id, "kind": given.kind, "expires_at": to_text(expires_ms)}
        await record_act(connection, call, Change("capture_session", session_id, None, session))
        body = {
            "id": session_id,
            "check_id": check.id,
            "kind": given.kind,
            "capture_session_token": token,
            "url": f"{services.settings.vision_address}{PAGE_PATH}#{token}",
            "expires_at": to_text(expires_ms),
        }
        return json_response(201, body)

    return await once(services, call.claim, work)
