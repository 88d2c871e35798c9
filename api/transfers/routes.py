"""Operations on transfers. The account's owner posts them; reads come from PostgreSQL."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import asyncpg
import msgspec
from fastapi import Query
from starlette.responses import Response

from api.accounts.routes import opening_card
from api.database.pool import fetch_row
from api.http.answers import json_response
from api.http.fields import Id, Instant, MoneyView
from api.http.problems import FieldError, Refusal, not_found
from api.http.refusals import refusals
from api.http.validation import View
from api.metadata.inputs import ShownMetadata
from api.operations.call import Call, KeyedCall, PathId, ReadCall
from api.operations.idempotency import REPLAYED_HEADER, recall
from api.operations.pagination import first_of, page, page_model
from api.operations.route import new_router
from api.operations.submission import submit
from api.transfers.inputs import IN_FULL, ReversalInput, TransferInput, TransfersQuery
from engine.commands import ReverseTransfer, Transfer
from engine.ids import Derived, derive, key_of, shard_of
from engine.instant import to_ms
from engine.transfer import Direction, PostedTransfer, TransferKind, transfer_view

router = new_router("Accounts")

_SELECT: Final = """
    SELECT r.id::text, r.account_id::text, r.programme_id::text, r.card_id::text, r.direction, r.kind,
        r.amount_minor, r.currency, r.external_ref, r.description, r.metadata, r.created_at,
        r.reversal_id::text, r.reversed_at
    FROM transfers r
"""
_FIND: Final = _SELECT + " WHERE r.id = $1::uuid AND r.tenant_id = $2 AND r.live = $3"
_ACCOUNT: Final = "SELECT kind, currency FROM accounts WHERE id = $1::uuid AND tenant_id = $2 AND live = $3"
_decode_metadata = msgspec.json.Decoder(dict[str, str]).decode


class TransferView(View):
    """A transfer between an account and its programme's funding source.

    `reversal_id` is the transfer id of the opposite ledger entries, once the transfer is `reversed`.
    """

    id: Id
    account_id: Id
    programme_id: Id
    direction: Direction
    kind: TransferKind
    amount: MoneyView
    status: Literal["posted", "reversed"]
    external_ref: str | None
    description: str | None
    metadata: ShownMetadata
    created_at: Instant
    reversal_id: Id | None
    reversed_at: Instant | None


@router.post(
    "/v1/transfers",
    status_code=201,
    response_model=TransferView,
    responses=refusals("not-found", "currency-mismatch", "insufficient-funds", "balance-limit-exceeded"),
)
async def create_transfer(given: TransferInput, call: KeyedCall) -> Response:
    """Transfer money between an account and its programme's funding source.

    A debit above the available balance is refused unless `allow_negative` is true. Emits
    `ledger.entry.posted`.
    """
    services, caller = call.services, call.caller
    await _require_account(call, given)
    id_ = services.new_id(shard_of(given.account_id))
    command = Transfer(
        id=id_,
        command_key=key_of(id_),
        card_id=opening_card(given.account_id),
        tenant_id=caller.tenant_id,
        live=caller.live,
        account_id=given.account_id,
        direction=given.direction,
        kind=given.kind,
        amount_minor=given.amount.minor,
        currency=given.amount.currency,
        allow_negative=given.allow_negative,
        external_ref=given.external_ref,
        description=given.description,
        metadata=given.metadata,
    )
    return await submit(call, command)


async def _require_account(call: Call, given: TransferInput) -> None:
    """Raise ``Refusal`` unless the account is a card account of the caller in the amount's currency."""
    caller = call.caller
    row = await fetch_row(call.services.pool, _ACCOUNT, given.account_id, caller.tenant_id, caller.live)
    if row is None:
        errors = [FieldError("/account_id", "not_found", "There is no such account.")]
        raise Refusal("not-found", "There is no such account.", errors=errors)
    if row["kind"] != "card":
        detail = "The account must be of the kind card; the other side is the programme's funding source."
        raise Refusal("validation-failed", errors=[FieldError("/account_id", "not_allowed", detail)])
    if row["currency"] != given.amount.currency:
        detail = "The amount must be in the currency of the account."
        raise Refusal("currency-mismatch", errors=[FieldError("/amount/currency", "not_allowed", detail)])


@router.get(
    "/v1/transfers",
    response_model=page_model("Transfers", TransferView),
    responses=refusals("invalid-cursor"),
)
async def list_transfers(query: Annotated[TransfersQuery, Query()], call: ReadCall) -> Response:
    """List transfers, newest first. Simulated loads are transfers of the kind `load`."""
    filters, scanned = first_of(
        {
            "r.external_ref = ?": query.external_ref,
            "r.account_id = ?::uuid": query.account_id,
            "r.programme_id = ?::uuid": query.programme_id,
        }
    )
    return await page(
        call.services,
        call.caller,
        query,
        table="transfers",
        select=_SELECT,
        filters=filters | query.around_window,
        scanned={"r.kind = ?": query.kind, **scanned, **query.window},
        show=lambda row: transfer_view(_posted(row)),
    )


@router.get("/v1/transfers/{id}", response_model=TransferView, responses=refusals("not-found"))
async def get_transfer(transfer_id: PathId, call: ReadCall) -> Response:
    """Get a transfer."""
    return json_response(200, transfer_view(_posted(await _transfer(call, transfer_id))))


@router.post(
    "/v1/transfers/{id}/reverse",
    response_model=TransferView,
    responses=refusals("not-found", "transfer-reversed", "insufficient-funds", "balance-limit-exceeded"),
)
async def reverse_transfer(transfer_id: PathId, call: KeyedCall, given: ReversalInput = IN_FULL) -> Response:
    """Reverse a transfer, once and in full.

    Posts the opposite entries. The reversal of a credit above the available balance is refused unless
    `allow_negative` is true. Emits `ledger.entry.posted`.
    """
    services, caller = call.services, call.caller
    row = await _transfer(call, transfer_id)
    if row["reversal_id"] is not None:
        raise Refusal("transfer-reversed")
    command = ReverseTransfer(
        id=services.new_id(shard_of(row["account_id"])),
        # One key for all reversals of the transfer: the journal executes one of them.
        command_key=key_of(derive(transfer_id, Derived.TRANSFER_REVERSAL)),
        card_id=row["card_id"],
        tenant_id=caller.tenant_id,
        live=caller.live,
        transfer=_posted(row),
        allow_negative=given.allow_negative,
    )
    return await _only_own(call, await submit(call, command))


async def _only_own(call: Call, response: Response) -> Response:
    """``response``, unless it repeats that of another request. Raises ``Refusal`` 409."""
    if REPLAYED_HEADER not in response.headers:
        return response
    own = None if call.claim is None else await recall(call.services, call.claim)
    if own is None:
        raise Refusal("transfer-reversed")
    return own


async def _transfer(call: Call, transfer_id: str) -> Any:
    """The row of the caller's transfer. Raises ``Refusal`` 404."""
    caller = call.caller
    row = await fetch_row(call.services.pool, _FIND, transfer_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return row


def _posted(row: asyncpg.Record) -> PostedTransfer:
    return PostedTransfer(
        id=row["id"],
        account_id=row["account_id"],
        programme_id=row["programme_id"],
        direction=row["direction"],
        kind=row["kind"],
        amount_minor=row["amount_minor"],
        currency=row["currency"],
        external_ref=row["external_ref"],
        description=row["description"],
        metadata=_decode_metadata(row["metadata"]),
        created_ms=to_ms(row["created_at"]),
        reversal_id=row["reversal_id"],
        reversed_ms=None if row["reversed_at"] is None else to_ms(row["reversed_at"]),
    )
