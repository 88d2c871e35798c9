"""The vision host's application. It has no operations yet, so every path but its health is a 404 problem."""

from __future__ import annotations

from fastapi import FastAPI

from api.app import healthz, refuse_as_problems
from api.services import Services


def create_app(services: Services) -> FastAPI:
    """The vision host of one server."""
    app = FastAPI(
        title="Stanchion vision host", openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.add_route("/healthz", healthz)
    refuse_as_problems(app, services)
    return app
