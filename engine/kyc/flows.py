"""What each flow needs, and what a case still awaits (contract, section 10)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Literal, get_args

Flow = Literal["basic", "document", "full"]
DocumentType = Literal["passport", "national_id", "residence_permit", "driving_licence"]
Purpose = Literal["identity_verification", "address_verification", "document_verification", "evidence_review"]

FLOWS: Final[tuple[Flow, ...]] = get_args(Flow)
"""From the weakest to the strongest: each needs what the one before it needs, and more."""
DOCUMENT_TYPES: Final[tuple[DocumentType, ...]] = get_args(DocumentType)
PURPOSES: Final[tuple[Purpose, ...]] = get_args(Purpose)

PERSON: Final = ("given_name", "family_name", "date_of_birth", "nationality")
ADDRESS: Final = ("address_line1", "address_postcode", "address_country")
DOCUMENT_DATA: Final = ("document_number", "document_expiry", "document_issuing_state")
DOCUMENT: Final = ("document_type", *DOCUMENT_DATA)
ZONE: Final = "document_mrz"
"""Stands in for all of ``DOCUMENT_DATA``."""
EVIDENCE: Final = ("document_evidence", "selfie")

_NEEDS: Final[dict[Flow, tuple[str, ...]]] = {
    "basic": PERSON + ADDRESS,
    "document": PERSON + ADDRESS + DOCUMENT,
    "full": PERSON + ADDRESS + DOCUMENT + EVIDENCE,
}
INPUTS: Final = _NEEDS["full"]
"""Everything that a case can await, in the order in which it is told."""

PURPOSE_OF: Final[dict[str, Purpose]] = {
    **dict.fromkeys(PERSON, "identity_verification"),
    **dict.fromkeys(ADDRESS, "address_verification"),
    **dict.fromkeys((*DOCUMENT_DATA, ZONE), "document_verification"),
    **dict.fromkeys(EVIDENCE, "evidence_review"),
}
"""The one purpose for which each value in custody may be read. The document's type is no secret of a person
and rests with the case."""


def needs(flow: Flow) -> tuple[str, ...]:
    """The inputs that a new case of ``flow`` awaits."""
    return _NEEDS[flow]


def suffices(flow: Flow, demanded: str | None) -> bool:
    """Whether ``flow`` is at least the ``demanded`` one; nothing demanded is always met."""
    return demanded not in FLOWS or FLOWS.index(flow) >= FLOWS.index(demanded)


def still_awaited(awaiting: Iterable[str], given: Collection[str]) -> tuple[str, ...]:
    """What is left of ``awaiting`` once ``given`` have come."""
    covered = {*given, *(DOCUMENT_DATA if ZONE in given else ())}
    return tuple(name for name in awaiting if name not in covered)


def asked_again(names: Collection[str]) -> frozenset[str]:
    """What is forgotten when ``names`` are asked for once more: with any part of a document its zone too,
    which would go on contradicting the new part."""
    return frozenset({*names, *((ZONE,) if {*DOCUMENT} & {*names} else ())})


def in_order(names: Collection[str]) -> tuple[str, ...]:
    """``names`` in the order in which inputs are told."""
    return tuple(name for name in INPUTS if name in names)
