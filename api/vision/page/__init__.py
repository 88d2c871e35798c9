"""The pages of the vision host. Their headers block external resources and framing.

The capture page is three files; ``api.vision.reveal`` serves the page that shows a card. A session's token is
in the fragment of the page's address. Browsers neither send the fragment nor include it in referrers, and the
script removes it from the address first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from api.kyc.capture import PAGE_PATH

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
FILES: Final = {
    PAGE_PATH: ("capture.html", "text/html; charset=utf-8"),
    f"{PAGE_PATH}/capture.js": ("capture.js", "text/javascript; charset=utf-8"),
    f"{PAGE_PATH}/capture.css": ("capture.css", "text/css; charset=utf-8"),
}


def add_page(app: FastAPI) -> None:
    """Serve the page and its two assets from memory."""
    for path, (name, media_type) in FILES.items():
        content = files(__name__).joinpath(name).read_bytes()
        app.add_route(path, serving(content, media_type), methods=["GET"])


def serving(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    """A handler that serves ``content``."""

    async def handler(_request: Request) -> Response:
        return Response(content, headers=HEADERS, media_type=media_type)

    return handler
