"""Records the answer of each operation, and replaces secrets, ids and times for publication."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qsl

import httpx2

Json = dict[str, Any]

_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_INSTANT: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z")
_SIGNATURE: Final = re.compile(r"signature=[0-9a-f]{64}")
_BEGIN: Final = datetime(2026, 11, 21, 10, 15, 30, 123000, UTC)
# Recognisable as an example, so that it is not mistaken for a leaked secret.
_SECRETS: Final = {
    "access_token": "tok_an-example-and-no-token",
    "secret": "whsec_an-example-and-no-secret",
    "client_secret": "sk_an-example-and-no-secret",
    "decision_secret": "decsec_an-example-and-no-secret",
    "capture_session_token": "cap_an-example-and-no-token",
}
_REVEAL: Final = re.compile(r"rvl_[\w-]{43}")
"""Tokens that only occur inside of addresses."""
_PAN_REF: Final = re.compile(r"pan_[0-9a-f]{24}")
# One event type is enough as an example.
_CUT: Final = {"list_event_types": 1}


class Recorder:
    """Records the last answer of each operation of ``document``, the API description."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._templates = {
            (method.upper(), path): operation["operationId"]
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
        }
        self._recorded: dict[str, Json] = {}

    def __call__(self, response: httpx2.Response) -> None:
        """A response hook for an httpx client."""
        request = response.request
        path = _ID.sub("{id}", request.url.path)
        name = self._templates.get((request.method, path))
        if name is None or response.status_code >= 400:
            return
        response.read()
        self._recorded[name] = {
            "id": next(iter(_ID.findall(request.url.path)), None),
            "query": dict(request.url.params),
            "request": _body(request.headers.get("content-type", ""), request.content),
            "status": response.status_code,
            "response": _body(response.headers.get("content-type", ""), response.content),
        }

    def examples(self, replacements: Mapping[str, str]) -> dict[str, Json]:
        """The examples by operation name. ``replacements``: actual addresses and the ones to show instead."""
        recorded = {name: _cut(name, self._recorded[name]) for name in sorted(self._recorded)}
        text = json.dumps(recorded)
        for secret, shown in (_secrets_of(recorded) | dict(replacements)).items():
            text = text.replace(json.dumps(secret)[1:-1], shown)
        text = _SIGNATURE.sub("signature=an-example-and-no-signature", text)
        text = _with_other_references(_REVEAL.sub("rvl_an-example-and-no-token", text))
        shown_: dict[str, Json] = json.loads(_with_other_instants(_with_other_ids(text)))
        return shown_


def _body(kind: str, content: bytes) -> Any:
    if not content:
        return None
    if kind.startswith("text/csv"):
        return content.decode()
    return json.loads(content) if "json" in kind else dict(parse_qsl(content.decode()))


def _cut(name: str, recorded: Json) -> Json:
    if name not in _CUT:
        return recorded
    return recorded | {
        "response": recorded["response"] | {"data": recorded["response"]["data"][: _CUT[name]]}
    }


def _secrets_of(value: Any) -> dict[str, str]:
    """Every secret in ``value``, with its replacement."""
    if isinstance(value, dict):
        own = {value[name]: shown for name, shown in _SECRETS.items() if isinstance(value.get(name), str)}
        members = list(value.values())
    else:
        own, members = {}, value if isinstance(value, list) else []
    for member in members:
        own |= _secrets_of(member)
    return own


def _with_other_ids(text: str) -> str:
    """Replaces ids: the same id for the same object, in every recording."""
    ids = list(dict.fromkeys(_ID.findall(text)))
    if len(ids) > 256:
        raise ValueError("more things than ids to show for them")
    shown = {id_: f"019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a{number:02x}" for number, id_ in enumerate(ids)}
    return _ID.sub(lambda found: shown[found[0]], text)


def _with_other_references(text: str) -> str:
    """Replaces references to card numbers: the same reference for the same card, in every recording."""
    found = list(dict.fromkeys(_PAN_REF.findall(text)))
    return _PAN_REF.sub(lambda match: f"pan_{found.index(match[0]):024x}", text)


def _with_other_instants(text: str) -> str:
    """Moves instants to a fixed beginning and keeps their distances."""
    instants = [datetime.fromisoformat(found) for found in _INSTANT.findall(text)]
    moved: timedelta = _BEGIN - min(instants, default=_BEGIN)

    def shown(found: re.Match[str]) -> str:
        at = datetime.fromisoformat(found[0]) + moved
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    return _INSTANT.sub(shown, text)
