"""The document types that a check's programme accepts."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from api.database.pool import fetch_row
from api.http.problems import Refusal
from api.kyc.cases import Check
from api.services import Services
from engine.programmes.programme import ProgrammeConfig

_PROGRAMME: Final = """
    SELECT p.config FROM programmes p JOIN cardholders h ON h.programme_id = p.id
    WHERE h.id = $1::uuid
"""
_config = msgspec.json.Decoder(ProgrammeConfig).decode


async def accepted_types(services: Services, check: Check) -> list[str]:
    """The document types that the programme of ``check`` has opted into."""
    row: Any = await fetch_row(services.pool, _PROGRAMME, check.cardholder_id)
    return _config(row["config"]).kyc_document_types


async def require_accepted(services: Services, check: Check, document_type: str) -> None:
    """Raise ``Refusal`` 409 unless the programme accepts documents of that type."""
    if document_type not in await accepted_types(services, check):
        raise Refusal("document-type-not-accepted")
