"""Routes of the description: ``/docs/openapi.json``; ``/docs/reference`` to read; ``/docs`` to try out, with
assets from the wheel. The links of both pages are relative, so that they work under a path prefix.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any, Final

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from api.docs.generated import Generated
from api.docs.openapi import describe

OPENAPI_PATH: Final = "/docs/openapi.json"
REFERENCE_PATH: Final = "/docs/reference"
TRY_PATH: Final = "/docs"
ASSETS_PATH: Final = "/docs/assets"
STATIC_PATH: Final = "/docs/static"
STATIC: Final = {
    "docs.css": "text/css; charset=utf-8",
    "reference.css": "text/css; charset=utf-8",
    "reference.js": "text/javascript; charset=utf-8",
    "theme.js": "text/javascript; charset=utf-8",
    "try.css": "text/css; charset=utf-8",
    "try.js": "text/javascript; charset=utf-8",
}
"""Media types of our own files, by name."""

# Swagger UI draws its icons from data addresses.
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}


def new_application() -> FastAPI:
    """An application whose documentation page needs no network."""
    app: FastAPI = FastAPIOffline(
        # ``add_docs`` serves the page; the package provides its assets.
        docs_url=None,
        redoc_url=None,
        title="Stanchion",
        openapi_url=OPENAPI_PATH,
        static_url=ASSETS_PATH,
        redirect_slashes=False,
        # The framework's telemetry is not used, and checking for it costs time on each request.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    return app


def add_docs(app: FastAPI) -> None:
    """Serve the description of the operations of ``app``, and its pages."""
    document = Generated(lambda: describe(app))
    page = Generated(lambda: _render(document.get()))

    async def description(_request: Request) -> Response:
        return JSONResponse(await document.get_in_thread())

    async def reference(_request: Request) -> Response:
        return HTMLResponse(await page.get_in_thread(), headers=HEADERS)

    try_page = _content("try.html")

    async def try_out(_request: Request) -> Response:
        return HTMLResponse(try_page, headers=HEADERS)

    app.openapi = document.get  # type: ignore[method-assign]
    # In place of the framework's route, which generates the description in the loop.
    app.router.routes[:] = [each for each in app.router.routes if getattr(each, "path", "") != OPENAPI_PATH]
    app.add_route(OPENAPI_PATH, description)
    app.add_route(REFERENCE_PATH, reference)
    app.add_route(TRY_PATH, try_out)
    for name, media_type in STATIC.items():
        app.add_route(f"{STATIC_PATH}/{name}", _static(name, media_type))


def _render(document: dict[str, Any]) -> str:
    # The start of a server needs no templates.
    from api.docs.reference import render

    return render(document)


def _static(name: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    content = _content(name)

    async def run(_request: Request) -> Response:
        return Response(content, media_type=media_type)

    return run


def _content(name: str) -> bytes:
    return files("api.docs").joinpath("static", name).read_bytes()
