"""Replacing a card: the preconditions, the new card's number, and the command to the owner of both cards."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import msgspec
from starlette.responses import Response

from api.cards.card_numbers import give_back, reserve
from api.cards.inputs import ReplacementInput
from api.cards.issue import expiry, finish, new_pan_ref
from api.cards.views import HOLDER_COLUMNS, holder
from api.database.object_metadata import COLUMNS, about_of
from api.database.pool import fetch_row
from api.http.problems import Refusal, not_found
from api.metadata.creation import creating
from api.operations.call import Call
from api.operations.submission import submit
from api.people.personal_data import People
from api.services import Services
from engine.commands import ReplaceCard, Replacement
from engine.ids import key_of, shard_of
from engine.programmes.programme import ProgrammeConfig

_config = msgspec.json.Decoder(ProgrammeConfig).decode
_FIND: Final = f"""
    SELECT r.id::text, r.tenant_id::text, r.live, r.cardholder_id::text, r.iin, r.cvk_generation,
           p.form_factor, g.config, h.status AS cardholder_status, {COLUMNS}, {HOLDER_COLUMNS}
    FROM cards r JOIN cardholders h ON h.id = r.cardholder_id
    JOIN card_products p ON p.id = r.card_product_id JOIN programmes g ON g.id = r.programme_id
    WHERE r.id = $1::uuid AND r.tenant_id = $2::uuid AND r.live = $3
"""


async def replace(call: Call, card_id: str, given: ReplacementInput) -> Response:
    """Replace a card and return the new one. Raises ``Refusal`` 404 or 409."""
    services, caller = call.services, call.caller
    card = await find_replaceable(services, card_id, caller.tenant_id, caller.live)
    command = await prepare(services, card, given.reason, activate=given.activate)
    about = about_of(card)
    shown = holder(card, People(services.vault)) | about.view()
    try:
        response = await creating(call, "card", command.id, about, partial(submit, call, command, shown))
    except Refusal as refusal:
        if refusal.kind.status < 500:
            await give_back(services, command.id)
        raise
    if "idempotent-replayed" in response.headers:
        await give_back(services, command.id)
    await finish(services, response)
    return response


async def find_replaceable(services: Services, card_id: str, tenant_id: str, live: bool) -> Any:
    """The row of a card whose programme and cardholder allow a replacement. Raises ``Refusal`` 404 or 409."""
    card = await fetch_row(services.pool, _FIND, card_id, tenant_id, live)
    if card is None:
        raise not_found()
    if _config(card["config"]).status == "closed":
        raise Refusal("programme-closed")
    if card["cardholder_status"] != "active":
        raise Refusal("cardholder-not-active")
    return card


async def prepare(
    services: Services, card: Any, reason: Replacement, *, activate: bool | None = None
) -> ReplaceCard:
    """Reserve a number for the replacement of ``card``, and build the command to its owner."""
    # On the old card's shard: one owner and one commit change both cards.
    new_id = services.new_id(shard_of(card["id"]))
    pan = await reserve(services, new_id, card["iin"], card["cardholder_id"])
    exp_year, exp_month = expiry(services.clock.now_ms(), _config(card["config"]).timezone)
    active, about = card["form_factor"] == "virtual" if activate is None else activate, about_of(card)
    return ReplaceCard(
        id=new_id,
        command_key=key_of(new_id),
        card_id=card["id"],
        tenant_id=card["tenant_id"],
        live=card["live"],
        reason=reason,
        last4=pan.last4,
        pan_ref=new_pan_ref(),
        exp_month=exp_month,
        exp_year=exp_year,
        # Another generation of keys: the CVV2 of the old card says nothing about that of the new one.
        cvk_generation=str(int(card["cvk_generation"]) + 1),
        state="active" if active else "unactivated",
        external_ref=about.external_ref,
        metadata=about.metadata,
    )
