"""The operations of the vision host. Checks run in this order: rate limits (429), request validation (400),
then the component's own checks.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from inspect import getdoc
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path
from fastapi.exceptions import RequestValidationError
from pydantic import StringConstraints
from starlette.requests import Request
from starlette.responses import Response

from api.fairness.shares import Shares
from api.http.answers import json_response
from api.http.json_body import media_type, read_body
from api.http.late_route import LateRoute
from api.http.problems import Refusal
from api.http.refusals import Responses, headers, refusals
from api.http.scope import OPERATION, TENANT
from api.http.strict_request import StrictRequest
from api.http.validation import Input
from api.operations.route import refusal_of_invalid
from api.vision.component import Answer, IdentityVerification
from api.vision.throttle import Throttle
from api.vision.views import AttachedView, BoundView, SessionView
from engine.kyc.flows import EVIDENCE
from engine.kyc.images import MEDIA_TYPES, media_type_of
from engine.limits import EVIDENCE_BYTES_MAX, EVIDENCE_RECEIPT_SECONDS

TOKEN_HEADER: Final = "capture-session-token"

TAG: Final = "Capture"
_UNKNOWN: Final = ""
"""The tenant of sessions whose component does not name one."""
BINDING: Final = "set_document_type"
"""The operation with a separate rate limit."""

_JSON: Final = ("invalid-json", "validation-failed", "unsupported-media-type", "dependency-unavailable")
_TOKEN: Final = {
    "name": "Capture-Session-Token",
    "in": "header",
    "required": True,
    "description": "The token of the capture session.",
    "schema": {"type": "string", "examples": ["cap_an-example-and-no-token"]},
}
NO_STORE: Final = {"Cache-Control": "no-store"}

Token = Annotated[str, StringConstraints(min_length=1, max_length=512)]


class TokenInput(Input):
    """The token is the authorization."""

    capture_session_token: Token


class DocumentTypeInput(TokenInput):
    """A document class. The component decides which classes it accepts."""

    document_type: Annotated[str, StringConstraints(min_length=1, max_length=100)]


def _responses(*slugs: str) -> Responses:
    """The responses of an operation: success, the refusals ``slugs``, and the common refusals."""
    common = ("rate-limited", "not-found", "request-timeout", "content-too-large", "internal-error")
    return {200: {"headers": headers("X-Request-Id")}, **refusals(*slugs, *common)}


class CaptureRoute(LateRoute):
    """An operation of the vision host. It checks the rate limit before FastAPI reads the body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        solve = super().get_route_handler()

        async def handle(request: Request) -> Response:
            request.scope[OPERATION] = self.name
            throttle: Throttle = request.app.state.throttle
            await (throttle.admit_bind if self.name == BINDING else throttle.admit_request)(request)
            strict = StrictRequest(request.scope, request.receive)
            if self.body_field is not None:
                await strict.read_body(absent=None)
            try:
                return await solve(strict)
            except RequestValidationError as invalid:
                raise refusal_of_invalid(invalid, strict) from None

        return handle


router: Final = APIRouter(
    tags=[TAG],
    route_class=CaptureRoute,
    generate_unique_id_function=lambda route: route.name,
    strict_content_type=False,
)


async def _verification(request: Request) -> IdentityVerification:
    component: IdentityVerification = request.app.state.verification
    return component


Verification = Annotated[IdentityVerification, Depends(_verification)]


@router.post(
    "/v1/vision/set-document-type",
    summary="Bind a document type to a capture session",
    description="A type can be bound anew until a picture of the document is attached. The host passes the"
    " answer of the identity-verification component on unchanged; `code` says why a type is refused.",
    response_model=BoundView,
    response_description=getdoc(BoundView) or "",
    responses=_responses(
        "class-select-not-supported",
        "document-class-locked",
        "document-class-unavailable",
        "document-class-not-accepted",
        *_JSON,
    ),
)
async def set_document_type(given: DocumentTypeInput, verification: Verification) -> Response:
    """Bind a document class to a hosted full-flow capture session."""
    answer = await verification.set_document_type(given.capture_session_token, given.document_type)
    return _mapped(answer)


@router.post(
    "/v1/vision/capture-session",
    summary="Get what a capture session awaits",
    description="Reads; the token is in the body, so that no log of addresses holds it.",
    response_model=SessionView,
    response_description=getdoc(SessionView) or "",
    responses=_responses(*_JSON),
)
async def describe_capture_session(given: TokenInput, verification: Verification) -> Response:
    """Return the session's data for the capture page."""
    return _mapped(await verification.describe(given.capture_session_token))


@router.post(
    "/v1/vision/evidence/{name}",
    summary="Send a picture",
    description=f"The image file of at most {EVIDENCE_BYTES_MAX} bytes, unchanged. A picture can be sent"
    " again as long as others are awaited. `document_evidence` needs a document type.",
    response_model=AttachedView,
    response_description=getdoc(AttachedView) or "",
    responses=_responses(
        "invalid-image",
        "document-type-missing",
        "kyc-check-changed",
        "unsupported-media-type",
        "dependency-unavailable",
    ),
    openapi_extra={
        "parameters": [_TOKEN],
        "requestBody": {"required": True, "content": {kind: {} for kind in MEDIA_TYPES}},
    },
)
async def attach_evidence(
    name: Annotated[str, Path(json_schema_extra={"enum": [*EVIDENCE]}, examples=[EVIDENCE[0]])],
    request: Request,
    verification: Verification,
) -> Response:
    """Take a picture. The session is verified before the picture is received."""
    if name not in EVIDENCE:
        raise Refusal("not-found", "There is no such path.")
    announced = media_type(request)
    if announced not in MEDIA_TYPES:
        raise Refusal("unsupported-media-type", f"Pictures are of the kinds {', '.join(MEDIA_TYPES)}.")
    token = request.headers.get(TOKEN_HEADER, "")
    _mapped(await verification.describe(token))
    uploads: Shares = request.app.state.uploads
    async with uploads.place(TENANT.get() or _UNKNOWN):
        picture = await read_body(request, EVIDENCE_BYTES_MAX, EVIDENCE_RECEIPT_SECONDS)
    if media_type_of(picture) != announced:
        raise Refusal("invalid-image")
    return _mapped(await verification.attach(token, name, picture))


def _mapped(answer: Answer) -> Response:
    """The component's answer as a response. Raises ``Refusal`` unless its status is 200."""
    if answer.status == 200:
        response = json_response(200, answer.body)
        response.headers.update(NO_STORE)
        return response
    if answer.code is not None:
        raise Refusal(answer.code.replace("_", "-"), members={"code": answer.code})
    if answer.status == 404:
        raise Refusal("not-found", "There is no such capture session, or it has ended.")
    raise Refusal("internal-error")
