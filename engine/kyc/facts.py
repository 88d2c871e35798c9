"""What an identity provider is told about a case, and what it answers."""

from __future__ import annotations

from datetime import date
from typing import Final, Literal, get_args

import msgspec

Reason = Literal[
    "name_mismatch",
    "date_of_birth_mismatch",
    "address_mismatch",
    "id_number_mismatch",
    "document_expired",
    "document_unreadable",
    "age_below_minimum",
    "watchlist_match",
    "risk_threshold",
    "max_attempts",
]
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)
"""The closed vocabulary of ``reason_codes`` (contract, section 10)."""

Outcome = Literal["passed", "failed", "review", "more_input"]


class Holder(msgspec.Struct, frozen=True):
    """The cardholder as the programme knows them. Never printed."""

    given_name: str
    family_name: str
    date_of_birth: date | None = None
    postcode: str | None = None
    country: str | None = None

    def __repr__(self) -> str:
        return "<Holder>"


class Facts(msgspec.Struct, frozen=True):
    """One complete case. ``given`` has the values in clear by field name; never printed."""

    check_id: str
    live: bool
    today: date
    attempts: int
    """Evaluations that have come to a result before this one."""
    document_type: str | None
    given: dict[str, str]
    evidence: frozenset[str]
    """Names of the images in custody."""
    holder: Holder

    def __repr__(self) -> str:
        return f"<Facts of {self.check_id}>"


class Verdict(msgspec.Struct, frozen=True):
    """A provider's answer. ``awaiting`` names the inputs to ask for again where the outcome is
    ``more_input``."""

    outcome: Outcome
    reason_codes: tuple[str, ...] = ()
    awaiting: tuple[str, ...] = ()
