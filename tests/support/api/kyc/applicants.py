"""Applicants for identity verification, with sample data that passes every flow."""

from __future__ import annotations

from typing import Any

from engine.mrz.zone import Zone, write_zone
from tests.support.api.driver import Caller

PERSON = {
    "given_name": "Grace",
    "family_name": "Canarybird",
    "date_of_birth": "1990-05-17",
    "nationality": "IE",
}
ADDRESS = {
    "address_line1": "12 Canary Wharf Lane",
    "address_postcode": "D02 XY45",
    "address_country": "IE",
}
DOCUMENT = {
    "document_type": "passport",
    "document_number": "CNRY77331",
    "document_expiry": "2033-02-28",
    "document_issuing_state": "IE",
}
BASIC = PERSON | ADDRESS
ZONE = write_zone(
    Zone(
        size="TD3",
        code="P",
        issuer="IRL",
        number="CNRY77331",
        nationality="IRL",
        birth="900517",
        sex="F",
        expiry="330228",
        surname=("CANARYBIRD",),
        given=("GRACE", "BREWSTER"),
    )
)
"""The same passport as ``DOCUMENT``."""


async def applicant(caller: Caller, programme: Any = None, **fields: Any) -> Any:
    """Create a cardholder with the names of ``PERSON``."""
    names = {"given_name": PERSON["given_name"], "family_name": PERSON["family_name"]}
    return await caller.cardholder(programme or await caller.programme(), **names | fields)


async def begin(caller: Caller, flow: str = "basic", holder: Any = None) -> Any:
    """Create a check."""
    holder = holder or await applicant(caller)
    return await caller.post("/v1/kyc/checks", {"cardholder_id": holder["id"], "flow_key": flow})


async def submit(caller: Caller, check: Any, data: Any, status: int = 200) -> Any:
    """Submit ``data``; returns the check."""
    return await caller.post(f"/v1/kyc/checks/{check['id']}/submissions", data, status)


async def passed_check(caller: Caller, holder: Any, flow: str = "basic") -> Any:
    """Create a check of ``holder`` and submit data that pass it."""
    check = await begin(caller, flow, holder)
    passed = await submit(caller, check, BASIC if flow == "basic" else BASIC | DOCUMENT)
    assert passed["state"] == "passed", passed
    return passed
