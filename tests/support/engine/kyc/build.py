"""Cases and facts for tests."""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec

from engine.kyc.case import Case, open_case, receive
from engine.kyc.facts import CaseFacts, Holder
from engine.kyc.flows import Flow, needs
from engine.mrz.zone import Zone, write_zone

NOW_MS = 1_795_255_200_000
"""2026-11-21T10:00:00Z."""
TODAY = date(2026, 11, 21)
ZONE = Zone(
    size="TD3",
    code="P",
    issuer="IRL",
    number="PA1234567",
    nationality="IRL",
    birth="900517",
    sex="F",
    expiry="330228",
    surname=("OCONNOR",),
    given=("AOIFE", "MARIE"),
)
GIVEN = {
    "given_name": "Aoife",
    "family_name": "O'Connor",
    "date_of_birth": "1990-05-17",
    "nationality": "IE",
    "address_line1": "12 Harbour Street",
    "address_postcode": "D02 XY45",
    "address_country": "IE",
    "document_number": "PA1234567",
    "document_expiry": "2033-02-28",
    "document_issuing_state": "IE",
    "document_mrz": write_zone(ZONE),
}
HOLDER = Holder("Aoife", "O'Connor", date(1990, 5, 17), "d02xy45", "IE")


def facts(*, without: tuple[str, ...] = (), zone: dict[str, Any] | None = None, **changes: Any) -> CaseFacts:
    """A consistent case, with ``changes`` of given values and facts, without the inputs in ``without``, and
    with the changes of the machine-readable zone in ``zone``.
    """
    given = {name: value for name, value in GIVEN.items() if name not in without}
    if zone is not None:
        given["document_mrz"] = write_zone(msgspec.structs.replace(ZONE, **zone))
    given |= {name: changes.pop(name) for name in list(changes) if name in GIVEN}
    base = CaseFacts(
        check_id="case-1",
        live=True,
        today=TODAY,
        attempts=0,
        document_type="passport",
        given=given,
        evidence=frozenset(),
        holder=HOLDER,
    )
    return msgspec.structs.replace(base, **changes)


def complete_case(flow: Flow = "basic") -> Case:
    """A collecting case that awaits nothing more."""
    tokens = {name: f"token-{name}" for name in needs(flow) if name != "document_type"}
    chosen = None if flow == "basic" else "passport"
    return receive(open_case("case-1", flow, NOW_MS), tokens, chosen, NOW_MS)
