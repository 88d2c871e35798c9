"""Cardholders: the people to whom cards are issued. Their personal data are stored sealed
(``api.people.personal_data``) and returned in answers only.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import Query
from pydantic import StringConstraints
from starlette.responses import Response

from api.database.object_metadata import About
from api.database.pool import Connection, fetch_row
from api.events.log import record
from api.http.answers import json_response
from api.http.fields import (
    Country,
    Day,
    Email,
    Id,
    Instant,
    Text20,
    Text100,
    Text200,
    Text255,
    example,
)
from api.http.problems import not_found
from api.http.refusals import refusals
from api.http.validation import Input, View
from api.metadata.inputs import Metadata, ShownMetadata
from api.metadata.store import insert
from api.operations.acts import Change, record_act
from api.operations.call import KeyedCall, PathId, ReadCall, creates
from api.operations.idempotency import once
from api.operations.pagination import PageQuery, first_of, page, page_model
from api.operations.route import new_router
from api.people.personal_data import COLUMNS, FIELDS, People, email_digest, seal_person
from api.people.rows import FIND, KIND, PERSONAL, SELECT, event_data, show
from api.programmes.routes import open_programme
from engine.instant import to_datetime

router = new_router("Cardholders")

_INSERT: Final = f"""
    INSERT INTO cardholders (id, tenant_id, live, programme_id, external_ref, status, created_at, updated_at,
                             {", ".join(COLUMNS)})
    VALUES ($1, $2, $3, $4, $5, 'active', $6, $6, {", ".join(f"${7 + i}" for i in range(len(COLUMNS)))})
"""

CardholderStatus = Literal["active", "blocked", "closed"]
Phone = Annotated[str, StringConstraints(pattern=r"^\+[1-9][0-9]{1,14}$"), example("+353861234567")]


class Address(Input):
    """A postal address."""

    line1: Text200
    line2: Text200 | None = None
    city: Text100
    postcode: Text20
    country: Country


class CardholderInput(Input):
    """A new cardholder."""

    programme_id: Id
    given_name: Annotated[Text100, example("Ada")]
    family_name: Annotated[Text100, example("Lovelace")]
    email: Email
    phone: Phone | None = None
    """E.164."""
    date_of_birth: Day | None = None
    address: Address | None = None
    external_ref: Text255 | None = None
    """The caller's own reference for this cardholder."""
    metadata: Metadata
    """The caller's own pairs; stored unencrypted, never part of events, deleted when the cardholder is
    erased."""


class AddressView(View):
    """A postal address."""

    line1: str
    line2: str | None
    city: str
    postcode: str
    country: str


class CardholderView(View):
    """A cardholder. After `DELETE` all personal members and `external_ref` are null; `metadata` is empty."""

    id: Id
    programme_id: Id
    given_name: str | None
    family_name: str | None
    email: str | None
    phone: str | None
    date_of_birth: str | None
    address: AddressView | None
    external_ref: str | None
    status: CardholderStatus
    kyc_state: Literal["pending", "in_review", "passed", "failed", "expired"] | None
    created_at: Instant
    updated_at: Instant
    erased_at: Instant | None
    """When the personal data were erased."""
    metadata: ShownMetadata


class CardholdersQuery(PageQuery):
    """Filters of the list."""

    programme_id: Id | None = None
    email: Email | None = None
    """Upper and lower case do not differ."""
    external_ref: Text255 | None = None
    status: CardholderStatus | None = None


@router.post(
    "/v1/cardholders",
    status_code=201,
    response_model=CardholderView,
    responses=refusals("quota-reached", "not-found", "programme-closed"),
)
@creates("cardholders")
async def create_cardholder(given: CardholderInput, call: KeyedCall) -> Response:
    """Create a cardholder.

    Emits `cardholder.created`, which carries no personal data.
    """

    async def work(connection: Connection) -> Response:
        services, caller = call.services, call.caller
        await open_programme(connection, caller, given.programme_id)
        now_ms, cardholder_id = services.clock.now_ms(), services.new_id()
        person = given.model_dump(include={*FIELDS})
        await connection.execute(
            _INSERT,
            cardholder_id,
            caller.tenant_id,
            caller.live,
            given.programme_id,
            given.external_ref,
            to_datetime(now_ms),
            *seal_person(services.vault, caller.tenant_id, caller.live, cardholder_id, person),
        )
        await services.clear_columns.write(connection, cardholder_id, person)
        about = About(metadata=given.metadata)
        await insert(connection, caller, "cardholder", cardholder_id, about)
        row = await connection.fetchrow(FIND, cardholder_id, caller.tenant_id, caller.live)
        assert row is not None, "just written in this transaction"
        await record(connection, services, caller, "cardholder.created", event_data(row), now_ms)
        shown = show(row, People(services.vault))
        await record_act(connection, call, Change(KIND, cardholder_id, None, shown, PERSONAL))
        return json_response(201, shown)

    return await once(call.services, call.claim, work)


@router.get("/v1/cardholders", response_model=page_model("Cardholders", CardholderView))
async def list_cardholders(query: Annotated[CardholdersQuery, Query()], call: ReadCall) -> Response:
    """List cardholders, newest first."""
    vault, caller = call.services.vault, call.caller
    people = People(vault)
    digest = query.email and email_digest(vault, caller.tenant_id, caller.live, query.email)
    filters, scanned = first_of(
        {
            "r.email_digest = ?": digest,
            "r.external_ref = ?": query.external_ref,
            "r.programme_id = ?::uuid": query.programme_id,
            "r.status = ?": query.status,
        }
    )
    return await page(
        call.services,
        caller,
        query,
        table="cardholders",
        select=SELECT,
        filters=filters,
        scanned=scanned,
        show=lambda row: show(row, people),
    )


@router.get("/v1/cardholders/{id}", response_model=CardholderView, responses=refusals("not-found"))
async def get_cardholder(cardholder_id: PathId, call: ReadCall) -> Response:
    """Get a cardholder."""
    caller = call.caller
    row = await fetch_row(call.services.pool, FIND, cardholder_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return json_response(200, show(row, People(call.services.vault)))
