"""Where the description is found: ``/docs/openapi.json``; ``/docs/reference`` to read, and ``/docs``
to try, with its assets from the wheel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from api.docs.openapi import describe
from api.docs.reference import render
from api.operations import Operation

OPENAPI_PATH: Final = "/docs/openapi.json"
REFERENCE_PATH: Final = "/docs/reference"


def new_application() -> FastAPI:
    """An application whose documentation page needs no network."""
    app: FastAPI = FastAPIOffline(
        docs_url="/docs",
        redoc_url=None,
        title="Stanchion",
        openapi_url=OPENAPI_PATH,
        static_url="/docs/assets",
        # A list of what there is, with one operation open at a time and a link for each.
        swagger_ui_parameters={"docExpansion": "list", "filter": True, "tryItOutEnabled": True},
        redirect_slashes=False,
        # Nobody has asked for the framework's own telemetry, and looking for it costs time at each request.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    return app


def add_docs(app: FastAPI, operations: Sequence[Operation]) -> None:
    """Serve the description of the published ``operations``, made once."""
    document: dict[str, Any] = describe([each for each in operations if each.published])

    def openapi() -> dict[str, Any]:
        return document

    page: list[str] = []

    async def reference(_request: Request) -> Response:
        # Made for the first reader: no server waits for it at its start.
        if not page:
            page.append(render(document))
        return HTMLResponse(page[0])

    app.openapi = openapi  # type: ignore[method-assign]
    app.add_route(REFERENCE_PATH, reference)
