"""Reveal sessions: for five minutes, the token of a session lets its bearer see one card once, on a page of
the vision host (``api.vision.reveal``). The API itself never carries a card number."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, StringConstraints
from starlette.responses import Response

from api.cards.custody_log import actor_of, record
from api.database.pool import Connection
from api.http.answers import json_response
from api.http.fields import Instant, example
from api.http.problems import Refusal, not_found
from api.http.refusals import refusals
from api.http.validation import Input, View
from api.operations.acts import Change, record_act
from api.operations.call import KeyedCall, PathId
from api.operations.idempotency import once
from api.operations.route import new_router
from engine.cards.card import TRANSITIONS
from engine.instant import to_datetime, to_text
from engine.limits import REVEAL_ORIGINS_MAX, REVEAL_SESSION_SECONDS

router = new_router("Cards")

TOKEN_PURPOSE: Final = "reveal-session-token"
TOKEN_BYTES: Final = 32
PAGE_PATH: Final = "/reveal"

_LABEL: Final = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# The value stands in a header: the pattern admits host names and a port only, no separators and no wildcards.
_ORIGIN: Final = rf"^https://{_LABEL}(\.{_LABEL})*(:[1-9][0-9]{{0,4}})?$"
_CARD: Final = "SELECT state FROM cards WHERE id = $1::uuid AND tenant_id = $2 AND live = $3"
_INSERT: Final = """
    INSERT INTO reveal_sessions
        (id, tenant_id, live, card_id, token_digest, parent_origins, created_at, expires_at)
    VALUES ($1::uuid, $2::uuid, $3, $4::uuid, $5, $6, $7, $8)
"""

Origin = Annotated[
    str,
    StringConstraints(max_length=261, pattern=_ORIGIN),
    AfterValidator(str.lower),
    example("https://app.example.com"),
]


class RevealSessionInput(Input):
    """A session that shows a card to its holder."""

    parent_origins: Annotated[list[Origin], Field(default_factory=list, max_length=REVEAL_ORIGINS_MAX)]
    """The https origins whose pages may frame the page. If left out, no page may frame it."""


class RevealSessionView(View):
    """The address of the page, for the card's holder only."""

    url: Annotated[
        str, example("https://vision.example.com/reveal/019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e#rvl_…")
    ]
    """Works once."""
    expires_at: Instant


@router.post(
    "/v1/cards/{id}/reveal-sessions",
    status_code=201,
    response_model=RevealSessionView,
    responses=refusals("not-found", "card-ended"),
)
async def create_reveal_session(card_id: PathId, given: RevealSessionInput, call: KeyedCall) -> Response:
    """Open a session that shows a card's number, expiry and CVV2 to its holder, once.

    Send the holder to `url` within five minutes, or frame it on a page of `parent_origins`. The page hides
    the values after 30 seconds. The session and each use of it are rows of the custody log. The scope is in
    no default set: give it to the client that serves your cardholders.
    """
    services, caller = call.services, call.caller
    token, now_ms = f"rvl_{secrets.token_urlsafe(TOKEN_BYTES)}", services.clock.now_ms()
    expires_ms = now_ms + REVEAL_SESSION_SECONDS * 1000
    session: dict[str, Any] = {
        "id": services.new_id(),
        "tenant_id": caller.tenant_id,
        "live": caller.live,
        "card_id": card_id,
    }
    digest = services.vault.digest(TOKEN_PURPOSE, token.encode())

    async def work(connection: Connection) -> Response:
        state = await connection.fetchval(_CARD, card_id, caller.tenant_id, caller.live)
        if state is None:
            raise not_found()
        if not TRANSITIONS[state]:
            raise Refusal("card-ended")
        times = to_datetime(now_ms), to_datetime(expires_ms)
        await connection.execute(_INSERT, *session.values(), digest, given.parent_origins, *times)
        actor = await actor_of(connection, caller)
        await record(connection, session, "opened", actor, now_ms)
        opened = {"reveal_session": session["id"], "parent_origins": given.parent_origins}
        await record_act(connection, call, Change("card", card_id, None, opened))
        url = f"{services.settings.vision_address}{PAGE_PATH}/{session['id']}#{token}"
        return json_response(201, {"url": url, "expires_at": to_text(expires_ms)})

    return await once(services, call.claim, work)
