"""Templates and static files of the console, and the functions that templates call."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import jinja2
from starlette.requests import Request
from starlette.responses import Response

from api.console.late import CONSOLE_PATH
from api.http.scope import PREFIX

PATH: Final = CONSOLE_PATH
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
        " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
NO_STORE: Final = HEADERS | {"Cache-Control": "no-store"}
MEDIA_TYPES: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}

TONES: Final = {
    status: tone
    for tone, statuses in {
        "good": "active enabled approved pending cleared posted partially_cleared delivered completed"
        " verified up signed_on decided settled done pass passed ready",
        "bad": "declined terminated failed lost stolen rejected revoked disabled blocked down closed expired"
        " fail",
        "warn": "suspended in_review retrying shadow running queued draft invited standing_in cancelled"
        " signed_off",
    }.items()
    for status in statuses.split()
}
"""The colour of a status badge by the status; others are neutral."""

_TEMPLATES: Final = jinja2.Environment(
    loader=jinja2.PackageLoader("api.console"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


class Addresses:
    """Addresses of this server's pages, with the prefix of the proxy that serves them."""

    def __init__(self, request: Request) -> None:
        self.prefix: str = request.scope.get(PREFIX, "")

    def url(self, path: str = "", **query: Any) -> str:
        """A path below the console. Values of the query that are ``None`` or empty are left out."""
        given = {name: value for name, value in query.items() if value not in (None, "")}
        return f"{self.prefix}{PATH}{path}" + (f"?{urlencode(given)}" if given else "")

    def site(self, path: str) -> str:
        """A path outside the console, such as ``/docs``."""
        return f"{self.prefix}{path}"

    def static(self, name: str) -> str:
        """A file of ``static``; a changed file has a new address."""
        return self.url(f"/static/{name}", v=version_of(name))


class Moments:
    """Instants as texts in one time zone."""

    def __init__(self, zone: str) -> None:
        self.zone = zone
        self._zone = ZoneInfo(zone)

    def moment(self, text: str) -> str:
        """The date and the time of an instant of the API, to the second."""
        return self._local(text).strftime("%Y-%m-%d %H:%M:%S")

    def day(self, text: str) -> str:
        """The date of an instant."""
        return self._local(text).strftime("%Y-%m-%d")

    def clock(self, text: str) -> str:
        """The time of an instant, to the second."""
        return self._local(text).strftime("%H:%M:%S")

    def _local(self, text: str) -> datetime:
        return datetime.fromisoformat(text).astimezone(self._zone)


def html(
    template: str, request: Request, *, status: int = 200, zone: str = "UTC", values: Mapping[str, Any]
) -> Response:
    """``template`` as a response that is not stored."""
    addresses, moments = Addresses(request), Moments(zone)
    given = {
        "url": addresses.url,
        "site": addresses.site,
        "static": addresses.static,
        "zone": zone,
        "moment": moments.moment,
        "day": moments.day,
        "clock": moments.clock,
        "tone": lambda status: TONES.get(status, "neutral"),
        "new_key": lambda: str(uuid.uuid4()),
        "csrf": None,
        "form_key": None,
        "person": None,
        "notice": None,
    }
    text = _TEMPLATES.get_template(template).render({**given, **values})
    return Response(text, status, NO_STORE, "text/html; charset=utf-8")


@cache
def static_files() -> dict[str, bytes]:
    """The style sheets and scripts of the console by name."""
    return {
        each.name: each.read_bytes()
        for each in files("api.console").joinpath("static").iterdir()
        if media_type_of(each.name) is not None
    }


def media_type_of(name: str) -> str | None:
    """The media type of a static file; ``None`` for licences and notes."""
    return MEDIA_TYPES.get(f".{name.rpartition('.')[2]}")


@cache
def version_of(name: str) -> str:
    """The beginning of the file's hash."""
    return hashlib.sha256(static_files()[name]).hexdigest()[:12]
