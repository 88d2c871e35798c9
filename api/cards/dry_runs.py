"""Dry runs: how the platform would decide an authorization now, and how much a card can spend now.

The card's owner answers from its memory and changes nothing. CVV2 and 3-D Secure values are checked in test
mode only: in live mode, a caller without a limit of attempts could guess them.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import asyncpg
from fastapi import Query
from starlette.responses import Response

from actors.network.authentication_keys import SEAL
from actors.network.card_secrets import CardSecrets
from actors.vault import Vault
from api.cards.dry_run_models import DryRunInput, DryRunView, HeadroomQuery, HeadroomView
from api.database.pool import fetch_row
from api.http.problems import FieldError, Refusal, not_found
from api.http.refusals import refusals
from api.operations.call import Call, PathId, ReadCall
from api.operations.route import new_router
from api.operations.submission import submit
from api.simulations.inputs import merchant_amount_of
from engine.commands import Authorize, Evaluate, ReadHeadroom
from engine.ids import key_of, shard_of
from engine.money import HOME_COUNTRY
from engine.simulation import SpendRequest
from engine.threeds import Authentication, check_evidence

router = new_router("Cards")

_FIND: Final = """
    SELECT c.network, c.currency, c.exp_year, c.exp_month, c.cvk_generation, c.programme_id::text, p.sealed,
           k.sealed AS key_sealed, k.previous_sealed AS previous_key_sealed
    FROM cards c
    LEFT JOIN pans p ON p.card_id = c.id
    LEFT JOIN authentication_keys k ON k.programme_id = c.programme_id
    WHERE c.id = $1::uuid AND c.tenant_id = $2 AND c.live = $3
"""
_SECRETS: Final = ("cvv2", "auth_value", "threeds_ref")


@router.post("/v1/cards/{id}/evaluate", response_model=DryRunView, responses=refusals("not-found"))
async def evaluate_card(card_id: PathId, given: DryRunInput, call: ReadCall) -> Response:
    """Evaluate an authorization without making it (dry run).

    Takes the body of a simulated spend, in both modes, and returns the decision as it would be made at this
    instant. Nothing changes: no transaction, hold, counter or event. The next authorization gets the same
    decision unless the card, its account or its programme changes before it.
    """
    _refuse_secrets_in_live_mode(call, given)
    row = await _card(call, card_id)
    if given.card_id not in (None, card_id):
        raise Refusal(
            "validation-failed",
            errors=[FieldError("/card_id", "not_allowed", "Another card than the path's.")],
        )
    request = _command(
        _spend(call, card_id, given),
        row,
        given.merchant_id,
        given.cvv2_result or _cvv2_result(call, card_id, row, given),
        given.authentication_result or _authentication_result(call, card_id, row, given),
    )
    command = Evaluate(
        id=request.id,
        command_key=key_of(request.id),
        card_id=card_id,
        tenant_id=call.caller.tenant_id,
        live=call.caller.live,
        request=request,
        stand_in=given.stand_in or given.scenario == "delegated_timeout",
    )
    return await submit(call, command)


@router.get("/v1/cards/{id}/headroom", response_model=HeadroomView, responses=refusals("not-found"))
async def get_card_headroom(
    card_id: PathId, query: Annotated[HeadroomQuery, Query()], call: ReadCall
) -> Response:
    """Get the largest amount that a card can spend at a merchant now.

    One purchase of `max_amount` passes the card's state, its controls, the risk score and the funds; one
    minor unit more is declined by the rule `binding`. Nothing changes.
    """
    row = await _card(call, card_id)
    spend = SpendRequest(
        simulation_id=call.services.new_id(shard_of(card_id)),
        tenant_id=call.caller.tenant_id,
        card_id=card_id,
        amount_minor=1,
        currency=row["currency"],
        mcc=query.mcc,
        merchant_name="",
        merchant_country=query.merchant_country or HOME_COUNTRY[row["currency"]],
        channel=query.channel,
        accepted_ms=call.services.clock.now_ms(),
        entry_mode=query.entry_mode,
    )
    command = ReadHeadroom(
        id=spend.simulation_id,
        command_key=key_of(spend.simulation_id),
        card_id=card_id,
        tenant_id=call.caller.tenant_id,
        live=call.caller.live,
        request=_command(spend, row, query.merchant_id),
    )
    return await submit(call, command)


async def _card(call: Call, card_id: str) -> asyncpg.Record:
    """The caller's card, with its sealed number and keys. Raises ``Refusal`` 404."""
    caller = call.caller
    row = await fetch_row(call.services.pool, _FIND, card_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return row


def _refuse_secrets_in_live_mode(call: Call, given: DryRunInput) -> None:
    if not call.caller.live:
        return
    rule = "Live mode checks no card secrets in a dry run. State the result of the check instead."
    errors = [
        FieldError(f"/{name}", "not_allowed", rule) for name in _SECRETS if getattr(given, name) is not None
    ]
    if errors:
        raise Refusal("validation-failed", errors=errors)


def _spend(call: Call, card_id: str, given: DryRunInput) -> SpendRequest:
    cap = given.approved_amount
    return SpendRequest(
        simulation_id=call.services.new_id(shard_of(card_id)),
        tenant_id=call.caller.tenant_id,
        card_id=card_id,
        amount_minor=given.amount.minor,
        currency=given.amount.currency,
        mcc=given.mcc,
        merchant_name=given.merchant_name,
        merchant_country=given.merchant_country or HOME_COUNTRY[given.amount.currency],
        channel=given.channel,
        accepted_ms=call.services.clock.now_ms(),
        kind=given.kind,
        entry_mode=given.entry_mode,
        scenario="partial_approval" if given.scenario == "partial_approval" else None,
        approved_amount_minor=None if cap is None else cap.minor,
        merchant_amount=merchant_amount_of(given.merchant_amount),
        mit=given.mit,
    )


def _command(
    spend: SpendRequest,
    row: asyncpg.Record,
    merchant_id: str | None,
    cvv2: Literal["absent", "match", "mismatch"] = "absent",
    authentication: Authentication = "absent",
) -> Authorize:
    """The command of a dry run on the card in ``row``, with the results of the checks of secrets."""
    # Only dry runs need the codecs of ISO 8583: they load at the first one, not with the server.
    from actors.network.dry_run import DryRunCard, dry_run_command
    from engine.iso8583.codec import EncodeError
    from engine.iso8583.elements import ElementError

    card = DryRunCard(row["network"], row["exp_year"], row["exp_month"], cvv2, authentication)
    try:
        return dry_run_command(spend, card, merchant_id)
    except (ElementError, EncodeError):
        detail = "A value does not fit its field of an ISO 8583 message."
        raise Refusal("validation-failed", detail, errors=[FieldError("", "format", detail)]) from None


def _cvv2_result(call: Call, card_id: str, row: asyncpg.Record, given: DryRunInput) -> Any:
    """The edge's check of the CVV2; test mode only."""
    if given.cvv2 is None:
        return "absent"
    card_secrets = CardSecrets(call.services.vault)
    pan = card_secrets.open(card_id, row["sealed"])
    return card_secrets.check_cvv2(given.cvv2, pan, row["exp_year"], row["exp_month"], row["cvk_generation"])


def _authentication_result(
    call: Call, card_id: str, row: asyncpg.Record, given: DryRunInput
) -> Authentication:
    """The edge's check of the 3-D Secure value; test mode only."""
    if given.auth_value is None and given.threeds_ref is None:
        return "absent"
    vault = call.services.vault
    pan = CardSecrets(vault).open(card_id, row["sealed"])
    return check_evidence(given.auth_value, given.threeds_ref, pan, _keys(vault, row))


def _keys(vault: Vault, row: asyncpg.Record) -> list[bytes]:
    """The authentication keys of the card's programme."""
    sealed = (row["key_sealed"], row["previous_key_sealed"])
    context = row["programme_id"].encode("ascii")
    return [vault.open(SEAL, each, context) for each in sealed if each is not None]
