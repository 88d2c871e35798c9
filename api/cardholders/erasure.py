"""Erasing a cardholder: the personal data are destroyed; the record and the ledger keep ids only."""

from __future__ import annotations

from typing import Any, Final

import asyncpg
from starlette.responses import Response

from api.access.tokens import Caller
from api.database.pool import Connection
from api.events.log import record
from api.http.problems import Refusal, not_found
from api.http.refusals import refusals
from api.kyc.cases import LOCKED, SELECT
from api.kyc.erasure import erase as erase_check
from api.metadata.store import erase as erase_metadata
from api.operations.acts import Change, record_act
from api.operations.call import NO_MEMBERS, Empty, OptionallyKeyedCall, PathId
from api.operations.idempotency import once
from api.operations.route import new_router
from api.people.personal_data import COLUMNS
from api.people.rows import FIND, KIND, event_data
from engine.instant import to_datetime

router = new_router("Cardholders")

_CHECKS: Final = SELECT + " WHERE r.cardholder_id = $1::uuid AND r.tenant_id = $2::uuid ORDER BY r.id"
# A card that is being issued counts even before its owner has created it.
_LIVE_CARD: Final = """
    SELECT EXISTS (SELECT FROM cards
                   WHERE cardholder_id = $1::uuid AND state NOT IN ('terminated', 'lost', 'stolen'))
        OR EXISTS (SELECT FROM card_issues WHERE cardholder_id = $1::uuid)
"""
_END_STATUS_CHANGE: Final = "DELETE FROM cardholder_status_changes WHERE cardholder_id = $1::uuid"
_ERASE: Final = f"""
    UPDATE cardholders
    SET status = 'closed', external_ref = NULL, updated_at = $2, erased_at = $2,
        {", ".join(f"{name} = NULL" for name in COLUMNS)}
    WHERE id = $1::uuid
"""


@router.delete(
    "/v1/cardholders/{id}",
    status_code=204,
    responses=refusals("not-found", "cardholder-has-cards", "kyc-check-changed"),
)
async def delete_cardholder(
    cardholder_id: PathId, call: OptionallyKeyedCall, _body: Empty = NO_MEMBERS
) -> Response:
    """Erase a cardholder.

    Destroys the key of the cardholder's personal data and the keys of their KYC checks. The record stays with
    the status `closed`, `erased_at`, without metadata, and null for every personal member and `external_ref`;
    cards, transactions and the ledger keep its id. All cards must be `terminated`, `lost` or `stolen` first.
    Erasing cannot be undone; repeating it has no effect. Stored answers of earlier requests expire within 24
    hours. Emits `cardholder.erased`.
    """
    services, caller = call.services, call.caller

    async def work(connection: Connection) -> Response:
        checks, row = await _locked(connection, caller, cardholder_id)
        if row["erased_at"] is None:
            if await connection.fetchval(_LIVE_CARD, cardholder_id):
                raise Refusal("cardholder-has-cards")
            now_ms = services.clock.now_ms()
            for check in checks:
                await erase_check(connection, check, now_ms)
            # An open status change has no cards left to apply to.
            await connection.execute(_END_STATUS_CHANGE, cardholder_id)
            await connection.execute(_ERASE, cardholder_id, to_datetime(now_ms))
            await services.clear_columns.write(connection, cardholder_id, None)
            await erase_metadata(connection, cardholder_id)
            gone = await connection.fetchrow(FIND, cardholder_id, caller.tenant_id, caller.live)
            assert gone is not None, "locked in this transaction"
            await record(connection, services, caller, "cardholder.erased", event_data(gone), now_ms)
            before, after = ({"status": each["status"], "erased": each is gone} for each in (row, gone))
            await record_act(connection, call, Change(KIND, cardholder_id, before, after))
        return Response(status_code=204)

    return await once(services, call.claim, work)


async def _locked(
    connection: Connection, caller: Caller, cardholder_id: str
) -> tuple[list[asyncpg.Record], Any]:
    """Lock the cardholder's checks and row. Raises ``Refusal`` 404 or ``kyc-check-changed``.

    KYC writes lock the check first and the cardholder second. The same order here avoids deadlocks.
    """
    checks = await connection.fetch(_CHECKS + LOCKED, cardholder_id, caller.tenant_id)
    row = await connection.fetchrow(FIND + " FOR UPDATE", cardholder_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    begun = await connection.fetch(_CHECKS, cardholder_id, caller.tenant_id)
    if len(begun) > len(checks):
        raise Refusal("kyc-check-changed")
    return checks, row
