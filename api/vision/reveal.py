"""The page that shows a card to its holder, and the one view that its session allows.

The page's address has the session's id in its path and the token in its fragment, which browsers do not send.
The id finds the origins that may frame the page. The script sends the token in a request body, so that link
previews and prefetching do not use up the session, and gets the card as a piece of HTML. No response may be
stored.
"""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import Response

from actors.network.card_secrets import CardSecrets
from api.cards.custody_log import record
from api.cards.reveal_sessions import PAGE_PATH, TOKEN_PURPOSE
from api.database.pool import fetch_row, transaction
from api.http.problems import Refusal
from api.http.validation import Input
from api.services import Services
from api.vision import page
from api.vision.routes import CaptureRoute, Token
from engine.cards.card import TRANSITIONS
from engine.ids import is_id
from engine.instant import to_datetime, to_ms
from engine.pan import Pan

_FIND: Final = """
    SELECT s.id::text, s.tenant_id::text, s.live, s.card_id::text, s.expires_at, s.viewed_at, c.state,
           p.sealed, c.exp_year, c.exp_month, c.cvk_generation
    FROM reveal_sessions s JOIN cards c ON c.id = s.card_id JOIN pans p ON p.card_id = c.id
    WHERE s.id = $1::uuid AND s.token_digest = $2
    FOR UPDATE OF s
"""
_VIEW: Final = "UPDATE reveal_sessions SET viewed_at = $2 WHERE id = $1::uuid"
_ORIGINS: Final = "SELECT parent_origins FROM reveal_sessions WHERE id = $1::uuid"
_ASSETS: Final = {
    f"{PAGE_PATH}/assets/reveal.js": ("reveal.js", "text/javascript; charset=utf-8"),
    f"{PAGE_PATH}/assets/reveal.css": ("reveal.css", "text/css; charset=utf-8"),
}
_HTML: Final = "text/html; charset=utf-8"
_CARD: Final = """<dl>
<div><dt>Card number</dt><dd data-name="number">{number}</dd></div>
<div><dt>Expires</dt><dd data-name="expiry">{expiry}</dd></div>
<div><dt>Security code</dt><dd data-name="code">{code}</dd></div>
</dl>
"""


class RevealInput(Input):
    """The token is the authorization."""

    token: Token


router: Final = APIRouter(route_class=CaptureRoute, strict_content_type=False)


@router.post(f"{PAGE_PATH}/{{session_id}}")
async def reveal_card(session_id: str, given: RevealInput, request: Request) -> Response:
    """Show the card of the session, once. Called by the page."""
    services: Services = request.app.state.services
    source = request.app.state.throttle.source(request)
    session = await _use(services, session_id, given.token, f"holder at {source}")
    custody = CardSecrets(services.vault)
    pan = custody.open(session["card_id"], session["sealed"])
    code = custody.cvv2(pan, session["exp_year"], session["exp_month"], session["cvk_generation"])
    expiry = f"{session['exp_month']:02d}/{session['exp_year'] % 100:02d}"
    shown = _CARD.format(number=escape(_grouped(pan)), expiry=expiry, code=escape(code))
    return Response(shown, headers=_headers(()), media_type=_HTML)


def add_reveal(app: FastAPI, services: Services) -> None:
    """Serve the page, its assets and its one call."""
    app.state.services = services
    document = files(page).joinpath("reveal.html").read_bytes()

    async def reveal_page(request: Request) -> Response:
        await request.app.state.throttle.admit_request(request)
        session_id = request.path_params["session_id"]
        row = await fetch_row(services.pool, _ORIGINS, session_id) if is_id(session_id) else None
        headers = _headers(() if row is None else row["parent_origins"])
        return Response(document, 404 if row is None else 200, headers, _HTML)

    app.router.routes += router.routes
    for path, (name, media_type) in _ASSETS.items():
        content = files(page).joinpath(name).read_bytes()
        app.add_route(path, page.serving(content, media_type), methods=["GET"])
    app.add_route(f"{PAGE_PATH}/{{session_id}}", reveal_page, methods=["GET"])


async def _use(services: Services, session_id: str, token: str, actor: str) -> Any:
    """The session with its card, whose one view is now committed and logged. Raises ``Refusal`` 404, 409 or
    410."""
    digest, now_ms = services.vault.digest(TOKEN_PURPOSE, token.encode()), services.clock.now_ms()
    async with transaction(services.pool) as connection:
        session = await connection.fetchrow(_FIND, session_id, digest) if is_id(session_id) else None
        if session is None:
            raise Refusal("not-found", "There is no such session.")
        slug = _refused(session, now_ms)
        await record(connection, session, "viewed" if slug is None else "refused", actor, now_ms)
        if slug is None:
            await connection.execute(_VIEW, session["id"], to_datetime(now_ms))
    if slug is not None:
        raise Refusal(slug)
    return session


def _refused(session: Any, now_ms: int) -> str | None:
    """The problem with ``session``, if it has one."""
    if session["viewed_at"] is not None:
        return "reveal-session-used"
    if to_ms(session["expires_at"]) <= now_ms:
        return "reveal-session-expired"
    return None if TRANSITIONS[session["state"]] else "card-ended"


def _grouped(pan: Pan) -> str:
    """The number in groups of four digits, as on a card."""
    return " ".join(pan[start : start + 4] for start in range(0, len(pan), 4))


def _headers(parent_origins: tuple[str, ...] | list[str]) -> dict[str, str]:
    """Headers of a response that only ``parent_origins`` may frame."""
    ancestors = " ".join(parent_origins) or "'none'"
    policy = page.HEADERS["Content-Security-Policy"].replace(
        "frame-ancestors 'none'", f"frame-ancestors {ancestors}"
    )
    headers = page.HEADERS | {"Content-Security-Policy": policy}
    if parent_origins:
        # Has no form for several origins; browsers with frame-ancestors ignore it.
        del headers["X-Frame-Options"]
    return headers
