"""The operations of the vision host. The order of checks: 429, 400 for the request as such, then the
component's own.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from pydantic import StringConstraints
from starlette.requests import Request
from starlette.responses import Response

from api.http.answers import json_response
from api.http.json_body import media_type, read_body, read_json
from api.http.problems import Refusal
from api.http.scope import OPERATION
from api.http.validation import Input, validated
from api.vision.component import Answer, IdentityVerification
from api.vision.throttle import Throttle
from engine.kyc.flows import EVIDENCE
from engine.kyc.images import MEDIA_TYPES, media_type_of
from engine.limits import EVIDENCE_BYTES_MAX, EVIDENCE_RECEIPT_SECONDS, EVIDENCE_UPLOADS_MAX

TOKEN_HEADER: Final = "capture-session-token"

NO_STORE: Final = {"Cache-Control": "no-store"}

Token = Annotated[str, StringConstraints(min_length=1, max_length=512)]


class TokenInput(Input):
    """Whoever has the token is authorized."""

    capture_session_token: Token


class DocumentTypeInput(TokenInput):
    """A document class; which ones are accepted is decided by the component."""

    document_type: Annotated[str, StringConstraints(min_length=1, max_length=100)]


class CaptureRoutes:
    """Handlers of one vision host."""

    def __init__(self, verification: IdentityVerification, throttle: Throttle) -> None:
        self._verification = verification
        self._throttle = throttle
        self._uploads = asyncio.Semaphore(EVIDENCE_UPLOADS_MAX)

    async def set_document_type(self, request: Request) -> Response:
        """Bind a document class to a hosted full-flow capture session (spec 4.7)."""
        request.scope[OPERATION] = "set_document_type"
        await self._throttle.admit_bind(request)
        given = validated(DocumentTypeInput, await read_json(request))
        answer = await self._verification.set_document_type(given.capture_session_token, given.document_type)
        return _mapped(answer)

    async def describe(self, request: Request) -> Response:
        """What the page has to ask for."""
        request.scope[OPERATION] = "describe_capture_session"
        await self._throttle.admit_request(request)
        given = validated(TokenInput, await read_json(request))
        return _mapped(await self._verification.describe(given.capture_session_token))

    async def attach(self, request: Request) -> Response:
        """Take a picture. The session is verified before the picture is received."""
        request.scope[OPERATION] = "attach_evidence"
        await self._throttle.admit_request(request)
        name, token = request.path_params["name"], request.headers.get(TOKEN_HEADER, "")
        if name not in EVIDENCE:
            raise Refusal("not-found", "There is no such path.")
        said = media_type(request)
        if said not in MEDIA_TYPES:
            raise Refusal("unsupported-media-type", f"Pictures are of the kinds {', '.join(MEDIA_TYPES)}.")
        _mapped(await self._verification.describe(token))
        picture = await self._receive(request)
        if media_type_of(picture) != said:
            raise Refusal("invalid-image")
        return _mapped(await self._verification.attach(token, name, picture))

    async def _receive(self, request: Request) -> bytes:
        if self._uploads.locked():
            raise Refusal(
                "rate-limited", "Too many pictures are being received.", headers={"Retry-After": "2"}
            )
        async with self._uploads:
            return await read_body(request, EVIDENCE_BYTES_MAX, EVIDENCE_RECEIPT_SECONDS)


def _mapped(answer: Answer) -> Response:
    """The component's answer as a response. Raises ``Refusal`` for everything but 200."""
    if answer.status == 200:
        response = json_response(200, answer.body)
        response.headers.update(NO_STORE)
        return response
    if answer.code is not None:
        raise Refusal(answer.code.replace("_", "-"), members={"code": answer.code})
    if answer.status == 404:
        raise Refusal("not-found", "There is no such capture session, or it has ended.")
    raise Refusal("internal-error")
