"""The operations on cards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Query
from starlette.responses import Response

from api.cards.controls import to_engine
from api.cards.inputs import CardChange, CardInput, CardsQuery, ReplacementInput
from api.cards.issue import finish, issue
from api.cards.replace import replace
from api.cards.views import FIND, SELECT, BalanceView, CardView, event_view, holder, show
from api.database.object_metadata import REFERENCE, about_of
from api.database.pool import Connection, fetch, fetch_row
from api.events.log import record
from api.http.answers import json_response
from api.http.problems import not_found
from api.http.refusals import refusals
from api.metadata.changes import owner_first
from api.metadata.store import change, referenced
from api.operations.acts import Change, record_act
from api.operations.call import Call, OptionallyKeyedCall, PathId, ReadCall, creates, resuming
from api.operations.idempotency import once
from api.operations.pagination import Conditions, first_of, page, page_model, page_response
from api.operations.route import new_router
from api.operations.submission import once_key, submit
from api.people.personal_data import People
from engine.commands import ChangeCard, ReadBalance
from engine.ids import key_of

router = new_router("Cards")


@router.post(
    "/v1/cards",
    status_code=201,
    response_model=CardView,
    responses=refusals(
        "quota-reached",
        "not-found",
        "card-product-retired",
        "programme-closed",
        "programme-mismatch",
        "cardholder-not-active",
        "kyc-not-passed",
    ),
)
@creates("cards")
async def create_card(given: CardInput, call: Annotated[Call, Depends(resuming(finish))]) -> Response:
    """Issue a card.

    Emits `card.created`. The card's number is drawn under the product's `iin`, kept encrypted, and never
    returned.
    """
    return await issue(call, given)


@router.get("/v1/cards", response_model=page_model("Cards", CardView), responses=refusals("invalid-cursor"))
async def list_cards(query: Annotated[CardsQuery, Query()], call: ReadCall) -> Response:
    """List cards, newest first.

    With `ids`, exactly these cards: `limit` is ignored, unknown ids are left out, and `starting_after` cannot
    be given.
    """
    services, caller = call.services, call.caller
    people = People(services.vault)
    filters, scanned = first_of(
        {
            "r.cardholder_id = ?::uuid": query.cardholder_id,
            "r.last4 = ?": query.last4,
            "r.programme_id = ?::uuid": query.programme_id,
            "r.state = ?": query.state,
        }
    )
    if query.ids is not None:
        where = Conditions(["r.tenant_id = $1", "r.live = $2"], [caller.tenant_id, caller.live])
        where.add({"r.id = ANY (?::uuid[])": list(query.ids), REFERENCE: query.external_ref})
        where.add(filters | scanned)
        rows = await fetch(services.pool, f"{SELECT} WHERE {where} ORDER BY r.id DESC", *where.values)
        return page_response([show(row, people) for row in rows])
    candidates = None
    if query.external_ref is not None:
        candidates = referenced("card", query.external_ref)
        filters, scanned = {}, filters | scanned
    return await page(
        services,
        caller,
        query,
        table="cards",
        select=SELECT,
        filters=filters,
        scanned=scanned,
        candidates=candidates,
        show=lambda row: show(row, people),
    )


@router.get("/v1/cards/{id}", response_model=CardView, responses=refusals("not-found"))
async def get_card(card_id: PathId, call: ReadCall) -> Response:
    """Get a card."""
    return json_response(200, show(await _card(call, card_id), People(call.services.vault)))


@router.patch(
    "/v1/cards/{id}", response_model=CardView, responses=refusals("not-found", "invalid-state-transition")
)
async def update_card(card_id: PathId, given: CardChange, call: OptionallyKeyedCall) -> Response:
    """Change a card's state, its controls, its reference or its metadata.

    `terminated`, `lost` and `stolen` are final. An acknowledged change applies to every later authorization.
    Emits `card.updated`; a change without effect succeeds and emits no event. Changes of the card and of its
    metadata in one request are two events.
    """
    services = call.services
    row = await _card(call, card_id)
    if not given.about:
        shown = holder(row, People(services.vault)) | about_of(row).view()
        return await submit(call, _change(call, row, given, key_of), shown)

    async def at_owner(inner: Call) -> Response:
        return await submit(inner, _change(call, row, given, partial(once_key, call)))

    async def work(connection: Connection) -> Response:
        caller = call.caller
        row: Any = await connection.fetchrow(FIND, card_id, caller.tenant_id, caller.live)
        before, after = await change(connection, caller, "card", card_id, given.about)
        await record_act(connection, call, Change("card", card_id, before.view(), after.view()))
        shown = event_view(row) | after.view()
        if after != before:
            await record(connection, services, caller, "card.updated", shown, services.clock.now_ms())
        return json_response(200, shown | holder(row, People(services.vault)))

    if given.changes_card:
        return await owner_first(call, card_id, given.about, at_owner, work)
    return await once(services, call.claim, work)


def _change(call: Call, row: Any, given: CardChange, key: Callable[[str], bytes]) -> ChangeCard:
    id_, about = call.services.new_id(), about_of(row)
    return ChangeCard(
        id=id_,
        command_key=key(id_),
        card_id=row["id"],
        tenant_id=call.caller.tenant_id,
        live=call.caller.live,
        state=given.state,
        state_reason=given.state_reason,
        controls=None if given.controls is None else to_engine(given.controls),
        external_ref=about.external_ref,
        metadata=about.metadata,
    )


@router.post(
    "/v1/cards/{id}/replace",
    status_code=201,
    response_model=CardView,
    responses=refusals(
        "quota-reached",
        "not-found",
        "card-already-replaced",
        "invalid-state-transition",
        "programme-closed",
        "cardholder-not-active",
    ),
)
@creates("cards")
async def replace_card(
    card_id: PathId, given: ReplacementInput, call: Annotated[Call, Depends(resuming(finish))]
) -> Response:
    """Replace a card; returns the new card.

    The new card has a new number, expiry and CVV2, and the account, the controls, the counters of the day,
    the declared balance, the reference and the metadata of the old one. The old card ends in the same commit:
    it declines new authorizations, and its open holds stay and clear on the shared account. A card is
    replaced once; `replaces` and `replaced_by` link both. A card that is already `lost`, `stolen` or
    `terminated` can be replaced for the reason that led to that state. Emits `card.created` for the new card,
    `card.updated` and `card.replaced` for the old one.
    """
    return await replace(call, card_id, given)


@router.get("/v1/cards/{id}/balance", response_model=BalanceView, responses=refusals("not-found"))
async def get_card_balance(card_id: PathId, call: ReadCall) -> Response:
    """Get a card's current balance."""
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


async def _card(call: Call, card_id: str) -> Any:
    """The row of the caller's card. Raises ``Refusal`` 404."""
    caller = call.caller
    row = await fetch_row(call.services.pool, FIND, card_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return row
