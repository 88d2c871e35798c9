"""The input of an identity provider for one case, and its answer."""

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
"""The closed vocabulary of ``reason_codes`` (``ops/docs/KYC.md``)."""

Outcome = Literal["passed", "failed", "review", "more_input"]


class Holder(msgspec.Struct, frozen=True):
    """The cardholder's data on record. Its ``repr`` shows no value."""

    given_name: str
    family_name: str
    date_of_birth: date | None = None
    postcode: str | None = None
    country: str | None = None

    def __repr__(self) -> str:
        return "<Holder>"


class CaseFacts(msgspec.Struct, frozen=True):
    """One complete case. ``given`` holds the plain values by field name; its ``repr`` shows none."""

    check_id: str
    live: bool
    today: date
    attempts: int
    """Earlier evaluations with a result."""
    document_type: str | None
    given: dict[str, str]
    evidence: frozenset[str]
    """Names of the images in custody."""
    holder: Holder

    def __repr__(self) -> str:
        return f"<CaseFacts of {self.check_id}>"


class Verdict(msgspec.Struct, frozen=True):
    """A provider's answer. ``awaiting`` names the inputs to ask for again where the outcome is
    ``more_input``."""

    outcome: Outcome
    reason_codes: tuple[str, ...] = ()
    awaiting: tuple[str, ...] = ()
