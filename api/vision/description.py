"""The OpenAPI 3.1 description of the vision host: ``/docs/openapi.json`` there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from api.docs.examples import sample
from api.docs.openapi import API_VERSION, HEADERS, ProblemView, ref, responses, schemas_of
from api.http.answers import json_response
from api.http.validation import Input
from api.vision.routes import DocumentTypeInput, TokenInput
from api.vision.views import AttachedView, BoundView, SessionView
from engine.kyc.flows import EVIDENCE
from engine.kyc.images import MEDIA_TYPES
from engine.limits import (
    BINDS_PER_WINDOW,
    CAPTURE_REQUESTS_PER_WINDOW,
    EVIDENCE_BYTES_MAX,
    VISION_WINDOW_SECONDS,
)

OPENAPI_PATH: Final = "/docs/openapi.json"
TAG: Final = "Capture"

_ABOUT: Final = f"""
The host of the capture page: an applicant chooses a document type and sends pictures. There is no bearer
token: the token of a capture session (`POST /v1/kyc/checks/{{id}}/capture-sessions` of the API) is the whole
authorization, for one hour.

One source address may bind {BINDS_PER_WINDOW} document types and make {CAPTURE_REQUESTS_PER_WINDOW} other
requests in {VISION_WINDOW_SECONDS} seconds; then `429`. Every error is a problem body (RFC 9457).
"""
_COMMON: Final = ("rate-limited", "not-found", "request-timeout", "content-too-large", "internal-error")
_COMMON_JSON: Final = (
    *_COMMON,
    "invalid-json",
    "validation-failed",
    "unsupported-media-type",
    "dependency-unavailable",
)
_BIND: Final = (
    "class-select-not-supported",
    "document-class-locked",
    "document-class-unavailable",
    "document-class-not-accepted",
)
_MODELS: Final = (ProblemView, TokenInput, DocumentTypeInput, BoundView, SessionView, AttachedView)
_TOKEN: Final = {
    "name": "Capture-Session-Token",
    "in": "header",
    "required": True,
    "description": "The token of the capture session.",
    "schema": {"type": "string"},
    "example": "cap_an-example-and-no-token",
}


def describe() -> dict[str, Any]:
    """The whole document."""
    schemas, names = schemas_of(_MODELS)
    schemas["Problem"]["properties"]["code"] = {
        "type": "string",
        "description": "Of a refused document type: the slug of `type` in snake case.",
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Stanchion vision host", "version": API_VERSION, "description": _ABOUT.strip()},
        "tags": [{"name": TAG, "description": "The calls of the capture page."}],
        "paths": {
            "/v1/vision/set-document-type": {"post": _bind(schemas, names)},
            "/v1/vision/capture-session": {"post": _session(schemas, names)},
            "/v1/vision/evidence/{name}": {"post": _attach(schemas, names)},
        },
        "components": {"schemas": schemas, "headers": HEADERS},
    }


def add_description(app: FastAPI) -> None:
    """Serve the document, made once."""
    document = describe()

    async def openapi(_request: Request) -> Response:
        return json_response(200, document)

    app.add_route(OPENAPI_PATH, openapi, methods=["GET"])


def _bind(schemas: dict[str, Any], names: Mapping[type[BaseModel], str]) -> dict[str, Any]:
    return _operation(
        "set_document_type",
        "Bind a document type to a capture session",
        "A type can be bound anew until a picture of the document is attached. The host passes the answer of"
        " the identity-verification component on unchanged; `code` says why a type is refused.",
        body=_json_body(DocumentTypeInput, schemas, names),
        answers=responses({200: BoundView}, (*_BIND, *_COMMON_JSON), schemas, dict(names), None, keyed=False),
    )


def _session(schemas: dict[str, Any], names: Mapping[type[BaseModel], str]) -> dict[str, Any]:
    return _operation(
        "describe_capture_session",
        "Get what a capture session awaits",
        "Reads; the token is in the body, so that no log of addresses holds it.",
        body=_json_body(TokenInput, schemas, names),
        answers=responses({200: SessionView}, _COMMON_JSON, schemas, dict(names), None, keyed=False),
    )


def _attach(schemas: dict[str, Any], names: Mapping[type[BaseModel], str]) -> dict[str, Any]:
    slugs = (
        *_COMMON,
        "invalid-image",
        "document-type-missing",
        "kyc-check-changed",
        "unsupported-media-type",
        "dependency-unavailable",
    )
    name = {
        "name": "name",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "enum": [*EVIDENCE]},
        "example": EVIDENCE[0],
    }
    described = _operation(
        "attach_evidence",
        "Send a picture",
        f"The image file of at most {EVIDENCE_BYTES_MAX} bytes, unchanged. A picture can be sent again as"
        " long as others are awaited. `document_evidence` needs a document type.",
        body={"required": True, "content": {kind: {} for kind in MEDIA_TYPES}},
        answers=responses({200: AttachedView}, slugs, schemas, dict(names), None, keyed=False),
    )
    return described | {"parameters": [name, _TOKEN]}


def _operation(
    name: str, summary: str, about: str, *, body: dict[str, Any], answers: dict[str, Any]
) -> dict[str, Any]:
    return {
        "operationId": name,
        "tags": [TAG],
        "summary": summary,
        "description": about,
        "security": [],
        "requestBody": body,
        "responses": answers,
    }


def _json_body(
    model: type[Input], schemas: dict[str, Any], names: Mapping[type[BaseModel], str]
) -> dict[str, Any]:
    value = sample(schemas[names[model]], schemas)
    content = {"schema": ref(names[model]), "examples": {"example": {"value": value}}}
    return {"required": True, "content": {"application/json": content}}
