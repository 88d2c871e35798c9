"""The OpenAPI 3.1 description of the vision host: ``/docs/openapi.json`` there."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import Response

from api.docs.generated import Generated
from api.docs.openapi import API_VERSION, complete
from api.http.answers import json_response
from api.vision.routes import TAG, router
from engine.limits import BINDS_PER_WINDOW, CAPTURE_REQUESTS_PER_WINDOW, VISION_WINDOW_SECONDS

OPENAPI_PATH: Final = "/docs/openapi.json"

_ABOUT: Final = f"""
The host of the capture page: an applicant chooses a document type and sends pictures. There is no bearer
token: the token of a capture session (`POST /v1/kyc/checks/{{id}}/capture-sessions` of the API) is the whole
authorization, for one hour.

One source address may bind {BINDS_PER_WINDOW} document types and make {CAPTURE_REQUESTS_PER_WINDOW} other
requests in {VISION_WINDOW_SECONDS} seconds; then `429`. Every error is a problem body (RFC 9457).
"""


def describe() -> dict[str, Any]:
    """The OpenAPI document."""
    document = complete(
        get_openapi(
            title="Stanchion vision host",
            version=API_VERSION,
            description=_ABOUT.strip(),
            tags=[{"name": TAG, "description": "The calls of the capture page."}],
            routes=router.routes,
            separate_input_output_schemas=False,
        ),
        examples={},
    )
    document["components"]["schemas"]["Problem"]["properties"]["code"] = {
        "type": "string",
        "description": "Of a refused document type: the slug of `type` in snake case.",
    }
    return document


def add_description(app: FastAPI) -> None:
    """Serve the document."""
    document = Generated(describe)

    async def openapi(_request: Request) -> Response:
        return json_response(200, await document.get_in_thread())

    app.add_route(OPENAPI_PATH, openapi, methods=["GET"])
