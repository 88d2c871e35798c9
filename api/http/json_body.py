"""Strict JSON bodies: RFC 8259 with the limits of I-JSON (RFC 7493), which all parsers read alike.

FastAPI's parser is not used: it accepts duplicate names, NaN and bodies of any size, and its errors repeat
rejected values.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from typing import Any, Final, NoReturn

from starlette.requests import ClientDisconnect, Request

from api.http.headers import header
from api.http.problems import Refusal
from api.http.scope import ARRIVED
from engine.limits import BODY_BYTES_MAX, BODY_RECEIPT_SECONDS, JSON_DEPTH_MAX

_CLOSE: Final = {"Connection": "close"}
# Only bodies with such an escape can hold NUL or half a surrogate pair.
_SUSPICIOUS: Final = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_SURROGATE_OR_NUL: Final = re.compile("[\ud800-\udfff\x00]")


async def read_json(request: Request) -> Any:
    """The body's value, or ``None`` for an empty body. Raises ``Refusal`` 400, 408, 413 or 415."""
    raw = await read_body(request)
    if not raw:
        return None
    require_json(request)
    return parse_json(raw)


async def read_body(request: Request, bytes_max: int = BODY_BYTES_MAX, seconds: float | None = None) -> bytes:
    """The body's bytes, at most ``bytes_max``, counted while they arrive, within ``seconds`` (by default
    ``BODY_RECEIPT_SECONDS``). Raises ``Refusal`` 408 or 413."""
    announced = header(request, b"content-length")
    if announced is not None and not _fits(announced, bytes_max):
        raise Refusal("content-too-large", headers=_CLOSE)
    if request.scope.get(ARRIVED):
        return await _receive_all(request, bytes_max)
    try:
        async with asyncio.timeout(BODY_RECEIPT_SECONDS if seconds is None else seconds):
            return await _receive_all(request, bytes_max)
    except TimeoutError:
        raise Refusal("request-timeout", headers=_CLOSE) from None


def _fits(announced: str, bytes_max: int) -> bool:
    return announced.isdecimal() and len(announced) <= 9 and int(announced) <= bytes_max


async def _receive_all(request: Request, bytes_max: int) -> bytes:
    chunks: list[bytes] = []
    room, more = bytes_max, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk, more = message.get("body", b""), message.get("more_body", False)
        room -= len(chunk)
        if room < 0:
            raise Refusal("content-too-large", headers=_CLOSE)
        chunks.append(chunk)
    return b"".join(chunks)


def media_type(request: Request) -> str | None:
    """The body's media type in lower case, or ``None`` without a Content-Type. Raises ``Refusal`` 415 for a
    compressed body, and for a charset other than UTF-8.
    """
    coding = header(request, b"content-encoding")
    if coding is not None and coding.lower() != "identity":
        raise Refusal("unsupported-media-type")
    named = header(request, b"content-type")
    if named is None:
        return None
    essence, *parameters = (part.strip().lower() for part in named.split(";"))
    charsets = [part.partition("=")[2].strip('" ') for part in parameters if part.startswith("charset=")]
    if any(charset not in {"utf-8", "utf8"} for charset in charsets):
        raise Refusal("unsupported-media-type")
    return essence


def require_json(request: Request) -> None:
    """Accept JSON media types, and a missing Content-Type as JSON. Raises ``Refusal`` 415 for other types."""
    named = media_type(request)
    if named is not None and named != "application/json" and not named.endswith("+json"):
        raise Refusal("unsupported-media-type")


def parse_json(raw: bytes) -> Any:
    """The value of a JSON text. Raises ``Refusal`` ``invalid-json`` with the place, never the text."""
    try:
        text = raw.decode("utf-8")
        value = _decoder.decode(text)
    except json.JSONDecodeError as broken:
        raise _invalid(f"The text is not JSON at line {broken.lineno}, column {broken.colno}.") from None
    except UnicodeDecodeError as broken:
        raise _invalid(f"The text is not UTF-8 at byte {broken.start}.") from None
    except RecursionError:
        raise _invalid(f"The value has more than {JSON_DEPTH_MAX} levels.") from None
    except ValueError:
        # Integers of thousands of digits.
        raise _invalid("A number is too long.") from None
    if text.count("{") + text.count("[") > JSON_DEPTH_MAX or _SUSPICIOUS.search(text):
        _search(value)
    return value


def _search(value: Any) -> None:
    """Refuse a value that is nested too deeply, or that contains NUL or half of a surrogate pair."""
    todo = [(value, 1)]
    while todo:
        item, depth = todo.pop()
        if isinstance(item, str):
            if _SURROGATE_OR_NUL.search(item):
                raise _invalid("A text holds NUL or half of a surrogate pair.")
        elif isinstance(item, dict | list):
            if depth > JSON_DEPTH_MAX:
                raise _invalid(f"The value has more than {JSON_DEPTH_MAX} levels.")
            if isinstance(item, dict):
                todo.extend((name, depth + 1) for name in item)
                todo.extend((member, depth + 1) for member in item.values())
            else:
                todo.extend((member, depth + 1) for member in item)


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(members)
    if len(value) != len(members):
        raise _invalid("An object has two members of one name.")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _invalid("A number is too large.")
    return number


def _no_constant(_name: str) -> NoReturn:
    raise _invalid("NaN and Infinity are not JSON.")


def _invalid(detail: str) -> Refusal:
    return Refusal("invalid-json", detail)


_decoder: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant
)
