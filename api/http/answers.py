"""Answers in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from engine.replies import body_bytes


def json_response(status: int, body: Mapping[str, Any]) -> Response:
    """``body`` in the exact bytes that a repetition would get."""
    return Response(body_bytes(dict(body)), status, media_type="application/json")
