"""Where the description is found: ``/docs/openapi.json``, and ``/docs`` for people, with its assets from the
wheel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from api.docs.openapi import describe
from api.operations import Operation

OPENAPI_PATH: Final = "/docs/openapi.json"


def new_application() -> FastAPI:
    """An application whose documentation page needs no network."""
    app: FastAPI = FastAPIOffline(
        docs_url="/docs",
        redoc_url=None,
        title="Stanchion",
        openapi_url=OPENAPI_PATH,
        static_url="/docs/assets",
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

    app.openapi = openapi  # type: ignore[method-assign]
