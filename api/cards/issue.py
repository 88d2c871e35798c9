"""Issuing a card: the preconditions on its product, cardholder and account, and the command to its owner."""

from __future__ import annotations

import secrets
from datetime import datetime
from functools import partial
from typing import Final

import asyncpg
import msgspec
from starlette.responses import Response

from api.access.tokens import Caller
from api.cardholders.status import release
from api.cards.card_numbers import give_back, reserve
from api.cards.controls import stored_controls, to_engine
from api.cards.inputs import CardInput
from api.cards.views import HOLDER_COLUMNS, holder
from api.database.object_metadata import About
from api.database.pool import Connection, connected
from api.http.problems import Refusal, not_found
from api.metadata.creation import creating
from api.operations.call import Call
from api.operations.submission import submit
from api.people.personal_data import People
from api.services import Services
from engine.commands import CreateCard
from engine.ids import Derived, derive, key_of, shard_of
from engine.instant import day_label, to_datetime
from engine.kyc.flows import suffices
from engine.limits import CARD_VALID_MONTHS
from engine.programmes.programme import ProgrammeConfig

CVK_GENERATION: Final = "1"
"""Generation of the card verification keys of new cards (``Vault.cvk_pair``)."""


class _Created(msgspec.Struct):
    id: str


_created = msgspec.json.Decoder(_Created).decode
_config = msgspec.json.Decoder(ProgrammeConfig).decode
_PRODUCT: Final = """
    SELECT r.programme_id::text, r.network, r.currency, r.form_factor, r.iin, r.control_defaults,
           r.kyc_flow, r.status, p.config
    FROM card_products r JOIN programmes p ON p.id = r.programme_id
    WHERE r.id = $1::uuid AND r.tenant_id = $2 AND r.live = $3
"""
_CARDHOLDER: Final = f"""
    SELECT id::text, tenant_id::text, programme_id::text, status, kyc_state, {HOLDER_COLUMNS},
           ARRAY(SELECT k.flow_key FROM kyc_checks k
                 WHERE k.cardholder_id = h.id AND k.state = 'passed' AND k.expires_at > $4) AS kyc_flows
    FROM cardholders h WHERE id = $1::uuid AND tenant_id = $2 AND live = $3
"""
_ACCOUNT: Final = """
    SELECT 1 FROM accounts
    WHERE id = $1::uuid AND tenant_id = $2 AND live = $3 AND kind = 'card' AND programme_id = $4::uuid
      AND currency = $5
"""


async def issue(call: Call, given: CardInput) -> Response:
    """Issue a card and return its response. Raises ``Refusal`` 404 or 409."""
    services, caller = call.services, call.caller
    async with connected(services.pool) as connection:
        product = await _product(connection, caller, given.card_product_id)
        now = to_datetime(services.clock.now_ms())
        cardholder = await _cardholder(connection, caller, given.cardholder_id, now)
        _check(product, cardholder)
        await _check_account(connection, caller, given.funding_account_id, product)
    card_id = services.new_id(shard_of(given.funding_account_id) if given.funding_account_id else None)
    pan = await reserve(services, card_id, product["iin"], given.cardholder_id)
    command = _command(call, given, card_id, pan.last4, product)
    about = About(given.external_ref, given.metadata)
    shown = holder(cardholder, People(services.vault), cardholder_id="id") | about.view()
    try:
        response = await creating(call, "card", card_id, about, partial(submit, call, command, shown))
    except Refusal as refusal:
        if refusal.kind.status < 500:
            await give_back(services, card_id)
        raise
    if "idempotent-replayed" in response.headers:
        await give_back(services, card_id)
    await finish(services, response)
    return response


async def finish(services: Services, response: Response) -> None:
    """Release the card of a successful ``response``, also of a repeated one: the request that created the
    card may have ended before this step. Raises ``Refusal`` 500 when the card's owner is unavailable.
    """
    if response.status_code == 201:
        await release(services, _created(bytes(response.body)).id)


async def _product(connection: Connection, caller: Caller, id_: str) -> asyncpg.Record:
    row = await connection.fetchrow(_PRODUCT, id_, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return row


async def _cardholder(connection: Connection, caller: Caller, id_: str, now: datetime) -> asyncpg.Record:
    row = await connection.fetchrow(_CARDHOLDER, id_, caller.tenant_id, caller.live, now)
    if row is None:
        raise not_found()
    return row


def _check(product: asyncpg.Record, cardholder: asyncpg.Record) -> None:
    if product["status"] == "retired":
        raise Refusal("card-product-retired")
    if _config(product["config"]).status == "closed":
        raise Refusal("programme-closed")
    if cardholder["programme_id"] != product["programme_id"]:
        raise Refusal("programme-mismatch")
    if cardholder["status"] != "active":
        raise Refusal("cardholder-not-active")
    if product["kyc_flow"] and not _verified(cardholder, product["kyc_flow"]):
        raise Refusal("kyc-not-passed")


def _verified(cardholder: asyncpg.Record, demanded: str) -> bool:
    """Whether a check of at least the demanded flow is valid, and no later check has failed."""
    valid = any(suffices(flow, demanded) for flow in cardholder["kyc_flows"])
    return cardholder["kyc_state"] == "passed" and valid


async def _check_account(
    connection: Connection, caller: Caller, account_id: str | None, product: asyncpg.Record
) -> None:
    """Raise ``Refusal`` 404 for an unknown account, and for one of another programme or currency."""
    if account_id is None:
        return
    belongs = (account_id, caller.tenant_id, caller.live, product["programme_id"], product["currency"])
    if not await connection.fetchval(_ACCOUNT, *belongs):
        raise not_found()


def _command(call: Call, given: CardInput, card_id: str, last4: str, product: asyncpg.Record) -> CreateCard:
    services, caller = call.services, call.caller
    config = _config(product["config"])
    opens_account = "funding_account_id" not in given.model_fields_set and config.mode == "managed"
    activate = given.activate if given.activate is not None else product["form_factor"] == "virtual"
    exp_year, exp_month = expiry(services.clock.now_ms(), config.timezone)
    controls = (
        stored_controls(product["control_defaults"]) if given.controls is None else to_engine(given.controls)
    )
    return CreateCard(
        id=card_id,
        command_key=key_of(card_id),
        tenant_id=caller.tenant_id,
        live=caller.live,
        programme_id=product["programme_id"],
        card_product_id=given.card_product_id,
        cardholder_id=given.cardholder_id,
        account_id=derive(card_id, Derived.ACCOUNT) if opens_account else given.funding_account_id,
        opens_account=opens_account,
        network=product["network"],
        currency=product["currency"],
        iin=product["iin"],
        last4=last4,
        pan_ref=new_pan_ref(),
        exp_month=exp_month,
        exp_year=exp_year,
        cvk_generation=CVK_GENERATION,
        state="active" if activate else "unactivated",
        controls=controls,
        cardholder_active=False,
        external_ref=given.external_ref,
        metadata=given.metadata,
    )


def new_pan_ref() -> str:
    """A fresh public reference to a card number."""
    return f"pan_{secrets.token_hex(12)}"


def expiry(now_ms: int, timezone: str) -> tuple[int, int]:
    """Year and month of expiry: ``CARD_VALID_MONTHS`` after the month of issue, inclusive."""
    year, month = (int(part) for part in day_label(now_ms, timezone).split("-")[:2])
    years, month_index = divmod(month - 1 + CARD_VALID_MONTHS, 12)
    return year + years, month_index + 1
