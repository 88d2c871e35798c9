"""Cardholders: the people cards are issued to (contract, section 5). Personal data stays in this table and in
answers.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import asyncpg
import msgspec
from pydantic import StringConstraints
from starlette.responses import Response

from api.database import Connection, fetch_row
from api.event_log import record
from api.fields import Country, Day, Id, Instant, Text20, Text100, Text200, Text255, example, shown_instant
from api.idempotency import once
from api.operations import Call, Empty, Family, json_response
from api.pagination import PageQuery, page, page_model
from api.problems import not_found
from api.programs import open_programme
from api.validation import Input, View
from engine.instant import to_datetime

family = Family("Cardholders")

_SELECT: Final = """
    SELECT r.id::text, r.programme_id::text, r.given_name, r.family_name, r.email, r.phone, r.date_of_birth,
           r.address, r.external_ref, r.status, r.kyc_state, r.created_at, r.updated_at
    FROM cardholders r
"""
FIND: Final = _SELECT + " WHERE r.id = $1::uuid AND r.tenant_id = $2 AND r.live = $3"
_INSERT: Final = """
    INSERT INTO cardholders (id, tenant_id, live, programme_id, given_name, family_name, email, phone,
                             date_of_birth, address, external_ref, status, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::date, $10, $11, 'active', $12, $12)
"""

Email = Annotated[
    str,
    StringConstraints(max_length=254, pattern=r"^[^@\s\x00-\x1f\x7f]{1,64}@[^@\s\x00-\x1f\x7f]{1,189}$"),
    example("ada@example.com"),
]
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
    """The caller's own name for this cardholder."""


class AddressView(View):
    """A postal address."""

    line1: str
    line2: str | None
    city: str
    postcode: str
    country: str


class CardholderView(View):
    """A cardholder."""

    id: Id
    programme_id: Id
    given_name: str
    family_name: str
    email: str
    phone: str | None
    date_of_birth: str | None
    address: AddressView | None
    external_ref: str | None
    status: Literal["active", "blocked", "closed"]
    kyc_state: Literal["pending", "in_review", "passed", "failed", "expired"] | None
    created_at: Instant
    updated_at: Instant


class CardholdersQuery(PageQuery):
    """Filters of the list."""

    programme_id: Id | None = None
    external_ref: Text255 | None = None


@family.operation(
    "POST",
    "/v1/cardholders",
    "create_cardholder",
    takes=CardholderInput,
    gives={201: CardholderView},
    creates="cardholders",
    problems=("quota-reached", "not-found", "programme-closed"),
)
async def create_cardholder(call: Call[CardholderInput]) -> Response:
    """Create a cardholder.

    Emits `cardholder.created`, which carries no personal data.
    """

    async def work(connection: Connection) -> Response:
        given, services, caller = call.given, call.services, call.caller
        await open_programme(connection, caller, given.programme_id)
        now_ms, cardholder_id = services.clock.now_ms(), services.new_id()
        address = msgspec.json.encode(given.address.model_dump()).decode() if given.address else None
        await connection.execute(
            _INSERT,
            cardholder_id,
            caller.tenant_id,
            caller.live,
            given.programme_id,
            given.given_name,
            given.family_name,
            given.email,
            given.phone,
            given.date_of_birth,
            address,
            given.external_ref,
            to_datetime(now_ms),
        )
        row = await connection.fetchrow(FIND, cardholder_id, caller.tenant_id, caller.live)
        assert row is not None, "just written in this transaction"
        await record(connection, services, caller, "cardholder.created", told(row), now_ms)
        return json_response(201, show(row))

    return await once(call.services, call.claim, work)


@family.operation(
    "GET",
    "/v1/cardholders",
    "list_cardholders",
    takes=CardholdersQuery,
    gives={200: page_model("Cardholders", CardholderView)},
)
async def list_cardholders(call: Call[CardholdersQuery]) -> Response:
    """List cardholders, newest first."""
    given = call.given
    return await page(
        call.services,
        call.caller,
        given,
        table="cardholders",
        select=_SELECT,
        filters={"r.programme_id = ?::uuid": given.programme_id, "r.external_ref = ?": given.external_ref},
        show=show,
    )


@family.operation(
    "GET", "/v1/cardholders/{id}", "get_cardholder", gives={200: CardholderView}, problems=("not-found",)
)
async def get_cardholder(call: Call[Empty]) -> Response:
    """Get a cardholder."""
    caller = call.caller
    row = await fetch_row(call.services.pool, FIND, call.path_id(), caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return json_response(200, show(row))


def show(row: asyncpg.Record) -> dict[str, Any]:
    """The public representation of a row of ``FIND``."""
    born = row["date_of_birth"]
    return {
        **row,
        "date_of_birth": born.isoformat() if born else None,
        "address": msgspec.json.decode(row["address"]) if row["address"] else None,
        "created_at": shown_instant(row["created_at"]),
        "updated_at": shown_instant(row["updated_at"]),
    }


def told(row: asyncpg.Record) -> dict[str, Any]:
    """The event's data: webhook receivers learn that, and where to look, but no personal data."""
    return {
        "cardholder_id": row["id"],
        "programme_id": row["programme_id"],
        "status": row["status"],
        "kyc_state": row["kyc_state"],
        "occurred_at": shown_instant(row["updated_at"]),
    }
