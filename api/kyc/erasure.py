"""Erasure of a KYC check's data in custody."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from api.database.pool import Connection
from api.kyc import applicant_data
from api.kyc.cases import check_of, save
from engine.kyc.case import erased

_END_SESSIONS: Final = "DELETE FROM kyc_capture_sessions WHERE check_id = $1::uuid"
_MARK: Final = "UPDATE kyc_checks SET erased_at = now() WHERE id = $1::uuid"
_ERASED: Final = "SELECT erased_at IS NOT NULL FROM kyc_checks WHERE id = $1::uuid"


async def erase(connection: Connection, row: Any, now_ms: int) -> bool:
    """Destroy the data keys of the check of ``row`` (of ``cases.SELECT``, locked in this transaction) and
    end its capture sessions; ``False`` if it was erased before.

    An open check ends: ``pending`` expires and ``in_review`` fails. A completed check keeps its result.
    """
    check_id = row["id"]
    if await connection.fetchval(_ERASED, check_id):
        return False
    check = check_of(row, now_ms)
    await applicant_data.destroy(connection, check_id, now_ms)
    await connection.execute(_END_SESSIONS, check_id)
    gone = msgspec.structs.replace(check, case=erased(check.case, now_ms))
    await save(connection, gone, row["version"], now_ms)
    await connection.execute(_MARK, check_id)
    return True
