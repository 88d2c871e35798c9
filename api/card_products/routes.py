"""Card products: templates for cards, written by the API. A card copies the default controls at its issue."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import asyncpg
from fastapi import Query
from pydantic import ConfigDict, Field, StringConstraints, model_validator
from starlette.responses import Response

from api.cards.controls import ControlsInput, ControlView, encode_controls, stored_controls, to_engine
from api.database.object_metadata import COLUMNS, About, about_of
from api.database.pool import Connection, fetch_row
from api.events.log import record
from api.http.answers import json_response
from api.http.fields import Currency, Id, Instant, Text100, Text255, example, shown_instant
from api.http.problems import Refusal, not_found
from api.http.refusals import refusals
from api.http.validation import Input, View, broken
from api.metadata.inputs import Metadata, MetadataChange, ShownMetadata
from api.metadata.store import change, insert
from api.operations.acts import Change, record_act
from api.operations.call import (
    NO_MEMBERS,
    Empty,
    KeyedCall,
    OptionallyKeyedCall,
    PathId,
    ReadCall,
    creates,
)
from api.operations.idempotency import once
from api.operations.pagination import PageQuery, page, page_model
from api.operations.route import new_router
from api.programmes.routes import KycPolicy, open_programme
from engine.controls import control_view, in_precedence
from engine.instant import to_datetime

router = new_router("Card products")

_SELECT: Final = f"""
    SELECT r.id::text, r.programme_id::text, r.name, r.network, r.currency, r.form_factor, r.iin,
           r.control_defaults, r.kyc_flow, r.status, r.created_at, {COLUMNS}
    FROM card_products r
"""
_FIND: Final = _SELECT + " WHERE r.id = $1::uuid AND r.tenant_id = $2 AND r.live = $3"
_INSERT: Final = """
    INSERT INTO card_products (id, tenant_id, live, programme_id, name, network, currency, form_factor, iin,
                               control_defaults, kyc_flow, status, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'active', $12)
"""
_RETIRE: Final = "UPDATE card_products SET status = 'retired' WHERE id = $1::uuid"

KIND: Final = "card_product"
Network = Literal["visa", "mastercard"]
FormFactor = Literal["virtual", "physical"]
_IIN_PREFIXES: Final = {
    "visa": (range(4000, 5000),),
    "mastercard": (range(5100, 5600), range(2221, 2721)),
}
"""The first four digits of the card numbers of each network (ISO/IEC 7812 register)."""
Iin = Annotated[str, StringConstraints(pattern="^[0-9]{6,8}$"), example("400000")]


class CardProductInput(Input):
    """A new card product. Its currency is that of its programme."""

    programme_id: Id
    name: Annotated[Text100, example("Virtual debit")]
    network: Network
    currency: Currency
    form_factor: FormFactor
    iin: Iin
    """Issuer identification number (ISO/IEC 7812): the first 6 to 8 digits of the cards' numbers. Visa: 4…;
    Mastercard: 51 to 55, and 2221 to 2720.
    """
    control_defaults: Annotated[ControlsInput, Field(default_factory=list)]
    kyc_flow: KycPolicy | None = None
    """Where set (not `null`), cards are issued only to cardholders who have passed identity verification."""
    external_ref: Text255 | None = None
    """The caller's own reference for this product."""
    metadata: Metadata
    """The caller's own pairs; stored unencrypted and included in events."""

    @model_validator(mode="after")
    def _of_network(self) -> CardProductInput:
        if not any(int(self.iin[:4]) in prefixes for prefixes in _IIN_PREFIXES[self.network]):
            raise broken("not_allowed", "The IIN is not one of the network's.", at="/iin")
        return self


class CardProductChange(Input):
    """The reference, the metadata, or both. The other members of a product cannot change."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    external_ref: Text255 | None = None
    metadata: MetadataChange | None = None
    """Merged with the stored pairs. A pair with `null` is removed; `null` without an object removes all."""

    @model_validator(mode="after")
    def _require_member(self) -> CardProductChange:
        if not self.model_fields_set:
            raise broken("missing", "Name at least one member to change.")
        return self


class CardProductView(View):
    """A card product."""

    id: Id
    programme_id: Id
    name: str
    network: Network
    currency: Currency
    form_factor: FormFactor
    iin: str
    control_defaults: list[ControlView]
    kyc_flow: str | None
    status: Literal["active", "retired"]
    created_at: Instant
    external_ref: str | None
    metadata: ShownMetadata


class CardProductsQuery(PageQuery):
    """Filters of the list."""

    programme_id: Id | None = None


@router.post(
    "/v1/card-products",
    status_code=201,
    response_model=CardProductView,
    responses=refusals("quota-reached", "not-found", "currency-mismatch", "programme-closed"),
)
@creates("card_products")
async def create_card_product(given: CardProductInput, call: KeyedCall) -> Response:
    """Create a card product.

    Emits `card_product.created`.
    """

    async def work(connection: Connection) -> Response:
        services, caller = call.services, call.caller
        programme = await open_programme(connection, caller, given.programme_id)
        if programme.currency != given.currency:
            raise Refusal("currency-mismatch", "The product's currency must be that of its programme.")
        now_ms, product_id = services.clock.now_ms(), services.new_id()
        await connection.execute(
            _INSERT,
            product_id,
            caller.tenant_id,
            caller.live,
            given.programme_id,
            given.name,
            given.network,
            given.currency,
            given.form_factor,
            given.iin,
            encode_controls(in_precedence(to_engine(given.control_defaults))).decode(),
            given.kyc_flow,
            to_datetime(now_ms),
        )
        about = About(given.external_ref, given.metadata)
        await insert(connection, caller, "card_product", product_id, about)
        row = await connection.fetchrow(_FIND, product_id, caller.tenant_id, caller.live)
        assert row is not None, "just written in this transaction"
        await record(connection, services, caller, "card_product.created", _show(row), now_ms)
        await record_act(connection, call, Change(KIND, product_id, None, _show(row)))
        return json_response(201, _show(row))

    return await once(call.services, call.claim, work)


@router.get("/v1/card-products", response_model=page_model("CardProducts", CardProductView))
async def list_card_products(query: Annotated[CardProductsQuery, Query()], call: ReadCall) -> Response:
    """List card products, newest first."""
    return await page(
        call.services,
        call.caller,
        query,
        table="card_products",
        select=_SELECT,
        filters={"r.programme_id = ?::uuid": query.programme_id},
        show=_show,
    )


@router.get("/v1/card-products/{id}", response_model=CardProductView, responses=refusals("not-found"))
async def get_card_product(product_id: PathId, call: ReadCall) -> Response:
    """Get a card product."""
    caller = call.caller
    row = await fetch_row(call.services.pool, _FIND, product_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return json_response(200, _show(row))


@router.patch("/v1/card-products/{id}", response_model=CardProductView, responses=refusals("not-found"))
async def update_card_product(
    product_id: PathId, given: CardProductChange, call: OptionallyKeyedCall
) -> Response:
    """Change a product's reference or metadata.

    Emits `card_product.updated`; a change without effect emits no event.
    """

    async def work(connection: Connection) -> Response:
        services, caller = call.services, call.caller
        of_caller = (product_id, caller.tenant_id, caller.live)
        row = await connection.fetchrow(_FIND, *of_caller)
        if row is None:
            raise not_found()
        changes = given.model_dump(include=given.model_fields_set)
        before, after = await change(connection, caller, "card_product", product_id, changes)
        shown = _show(row) | after.view()
        await record_act(connection, call, Change(KIND, product_id, before.view(), after.view()))
        if after != before:
            await record(connection, services, caller, "card_product.updated", shown, services.clock.now_ms())
        return json_response(200, shown)

    return await once(call.services, call.claim, work)


@router.post("/v1/card-products/{id}/retire", response_model=CardProductView, responses=refusals("not-found"))
async def retire_card_product(product_id: PathId, call: KeyedCall, _body: Empty = NO_MEMBERS) -> Response:
    """Retire a card product: no more cards are issued under it.

    Its cards keep working. Emits `card_product.retired`; retiring it again has no effect and emits no event.
    """

    async def work(connection: Connection) -> Response:
        services, caller = call.services, call.caller
        of_caller = (product_id, caller.tenant_id, caller.live)
        row = await connection.fetchrow(_FIND + " FOR UPDATE", *of_caller)
        if row is None:
            raise not_found()
        if row["status"] == "retired":
            return json_response(200, _show(row))
        await connection.execute(_RETIRE, product_id)
        before, row = row, await connection.fetchrow(_FIND, *of_caller)
        assert row is not None, "locked in this transaction"
        await record(
            connection, services, caller, "card_product.retired", _show(row), services.clock.now_ms()
        )
        await record_act(connection, call, Change(KIND, product_id, _show(before), _show(row)))
        return json_response(200, _show(row))

    return await once(call.services, call.claim, work)


def _show(row: asyncpg.Record) -> dict[str, Any]:
    controls = [control_view(control) for control in stored_controls(row["control_defaults"])]
    shown = {**row, "control_defaults": controls, "created_at": shown_instant(row["created_at"])}
    return shown | about_of(row).view()
