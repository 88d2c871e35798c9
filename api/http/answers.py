"""Answers in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import orjson
from starlette.responses import Response


def json_response(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """``body`` as JSON. A repetition with the same idempotency key gets the same bytes."""
    return Response(json_bytes(dict(body)), status, headers, "application/json")


def json_bytes(value: Any) -> bytes:
    """``value`` as JSON; it may hold structs and dataclasses."""
    return orjson.dumps(value, default=msgspec.to_builtins)
