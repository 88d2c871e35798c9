"""The operations on cards."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from api.cards.controls import to_engine
from api.cards.inputs import CardChange, CardInput, CardsQuery
from api.cards.issue import finish, issue
from api.cards.views import FIND, FIND_MANY, SELECT, BalanceView, CardView, holder, show
from api.database.pool import fetch, fetch_row
from api.http.answers import json_response
from api.http.problems import not_found
from api.operations.operation import Call, Empty, Family
from api.operations.pagination import page, page_model, page_response
from api.operations.submission import submit
from api.people.personal_data import People
from engine.commands import ChangeCard, ReadBalance
from engine.ids import key_of

family = Family("Cards")


@family.operation(
    "POST",
    "/v1/cards",
    "create_card",
    takes=CardInput,
    gives={201: CardView},
    creates="cards",
    problems=(
        "quota-reached",
        "not-found",
        "card-product-retired",
        "programme-closed",
        "programme-mismatch",
        "cardholder-not-active",
        "kyc-not-passed",
    ),
    resume=finish,
)
async def create_card(call: Call[CardInput]) -> Response:
    """Issue a card.

    Emits `card.created`. The card's number is drawn under the product's `iin`, kept encrypted, and never
    returned.
    """
    return await issue(call)


@family.operation(
    "GET",
    "/v1/cards",
    "list_cards",
    takes=CardsQuery,
    gives={200: page_model("Cards", CardView)},
    problems=("invalid-cursor",),
)
async def list_cards(call: Call[CardsQuery]) -> Response:
    """List cards, newest first.

    With `ids`, exactly these cards: `limit` is ignored, unknown ids are left out, and `starting_after` cannot
    be given.
    """
    given, services, caller = call.given, call.services, call.caller
    people = People(services.vault)
    if given.ids is not None:
        of_caller = (list(given.ids), caller.tenant_id, caller.live, given.cardholder_id, given.programme_id)
        rows = await fetch(services.pool, FIND_MANY, *of_caller)
        return page_response([show(row, people) for row in rows], has_more=False)
    filters = {
        "r.cardholder_id = ?::uuid": given.cardholder_id,
        "r.programme_id = ?::uuid": given.programme_id,
    }
    return await page(
        services,
        caller,
        given,
        table="cards",
        select=SELECT,
        filters=filters,
        show=lambda row: show(row, people),
    )


@family.operation("GET", "/v1/cards/{id}", "get_card", gives={200: CardView}, problems=("not-found",))
async def get_card(call: Call[Empty]) -> Response:
    """Get a card."""
    return json_response(200, show(await _card(call, call.path_id()), People(call.services.vault)))


@family.operation(
    "PATCH",
    "/v1/cards/{id}",
    "update_card",
    takes=CardChange,
    gives={200: CardView},
    problems=("not-found", "invalid-state-transition"),
)
async def update_card(call: Call[CardChange]) -> Response:
    """Change a card's state, its controls, or both.

    `terminated`, `lost` and `stolen` are final. A change acknowledged here is in force for every
    authorization that is asked for afterwards. Emits `card.updated`; a change to what is already there
    succeeds and emits nothing.
    """
    given, services, card_id = call.given, call.services, call.path_id()
    row = await _card(call, card_id)
    id_ = services.new_id()
    command = ChangeCard(
        id=id_,
        command_key=key_of(id_),
        card_id=card_id,
        tenant_id=call.caller.tenant_id,
        live=call.caller.live,
        state=given.state,
        state_reason=given.state_reason,
        controls=None if given.controls is None else to_engine(given.controls),
    )
    return await submit(call, command, holder(row, People(services.vault)))


@family.operation(
    "GET", "/v1/cards/{id}/balance", "get_card_balance", gives={200: BalanceView}, problems=("not-found",)
)
async def get_card_balance(call: Call[Empty]) -> Response:
    """Get a card's balance as of now."""
    card_id = call.path_id()
    await _card(call, card_id)
    id_ = call.services.new_id()
    command = ReadBalance(
        id=id_,
        command_key=key_of(id_),
        card_id=card_id,
        tenant_id=call.caller.tenant_id,
        live=call.caller.live,
    )
    return await submit(call, command)


async def _card(call: Call[Any], card_id: str) -> Any:
    """The row of the caller's card. Raises ``Refusal`` 404."""
    caller = call.caller
    row = await fetch_row(call.services.pool, FIND, card_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return row
