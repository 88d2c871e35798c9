"""The vision host's application."""

from __future__ import annotations

from fastapi import FastAPI

from api.app import healthz, refuse_as_problems
from api.docs.landing import VISION_LINKS, add_landing
from api.fairness.shares import HalfOfTheRest, Shares
from api.services import Services
from api.vision.component import IdentityVerification
from api.vision.description import add_description
from api.vision.in_process import InProcessVerification
from api.vision.page import add_page
from api.vision.reveal import add_reveal
from api.vision.routes import router
from api.vision.throttle import Throttle
from engine.limits import EVIDENCE_UPLOADS_MAX


def create_app(services: Services, verification: IdentityVerification | None = None) -> FastAPI:
    """The vision host of one server; ``verification`` is the component behind it, by default the one in this
    process.
    """
    app = FastAPI(
        title="Stanchion vision host", openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.verification = verification or InProcessVerification(services)
    app.state.throttle = Throttle(services.settings.trusted_proxies)
    app.state.uploads = Shares(EVIDENCE_UPLOADS_MAX, HalfOfTheRest(EVIDENCE_UPLOADS_MAX), waiting=0)
    app.router.routes += router.routes
    add_page(app)
    add_reveal(app, services)
    add_description(app)
    app.add_route("/healthz", healthz)
    text = "Here people open the page of their session: they send pictures of documents, or see their card."
    add_landing(app, "Stanchion vision host", text, VISION_LINKS)
    refuse_as_problems(app, services)
    return app
