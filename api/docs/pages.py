"""Routes of the description: ``/docs/openapi.json``; ``/docs/reference`` to read; ``/docs`` to try out, with
assets from the wheel.
"""

from __future__ import annotations

import asyncio
from functools import cache
from importlib.resources import files
from threading import Lock
from typing import Any, Final

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from api.docs.openapi import describe
from api.docs.reference import render
from api.http.security_headers import HTML_HEADERS

OPENAPI_PATH: Final = "/docs/openapi.json"
REFERENCE_PATH: Final = "/docs/reference"
TRY_PATH: Final = "/docs"
ASSETS_PATH: Final = "/docs/assets"
SCRIPT_PATH: Final = "/docs/try.js"

# Swagger UI styles elements by attributes, and draws its icons from data addresses.
TRY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
        " font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self';"
        " frame-ancestors 'none'"
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
    """Serve the description of the operations of ``app``. It is generated on the first request for it: at the
    start of a server it would cost two thirds of a second. A thread generates it: on a slow machine, a loop
    that is blocked for so long would count as frozen."""
    generating = Lock()

    @cache
    def described() -> dict[str, Any]:
        return describe(app)

    @cache
    def rendered() -> str:
        return render(openapi())

    def openapi() -> dict[str, Any]:
        with generating:
            return described()

    async def description(_request: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(openapi))

    async def reference(_request: Request) -> Response:
        return HTMLResponse(await asyncio.to_thread(rendered), headers=HTML_HEADERS)

    static = files("api.docs").joinpath("static")
    try_page, script = static.joinpath("try.html").read_bytes(), static.joinpath("try.js").read_bytes()

    async def try_out(_request: Request) -> Response:
        return HTMLResponse(try_page, headers=TRY_HEADERS)

    async def try_script(_request: Request) -> Response:
        return Response(script, media_type="text/javascript; charset=utf-8")

    app.openapi = openapi  # type: ignore[method-assign]
    # In place of the framework's route, which generates the description in the loop.
    app.router.routes[:] = [each for each in app.router.routes if getattr(each, "path", "") != OPENAPI_PATH]
    app.add_route(OPENAPI_PATH, description)
    app.add_route(REFERENCE_PATH, reference)
    app.add_route(TRY_PATH, try_out)
    app.add_route(SCRIPT_PATH, try_script)
