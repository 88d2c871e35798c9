"""The inputs of each flow, and the inputs that a case still awaits (``ops/docs/KYC.md``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Literal, get_args

Flow = Literal["basic", "document", "full"]
DocumentType = Literal["passport", "national_id", "residence_permit", "driving_licence"]
Purpose = Literal["identity_verification", "address_verification", "document_verification", "evidence_review"]

FLOWS: Final[tuple[Flow, ...]] = get_args(Flow)
"""Flows from the weakest to the strongest; each needs all inputs of the one before it."""
DOCUMENT_TYPES: Final[tuple[DocumentType, ...]] = get_args(DocumentType)
PURPOSES: Final[tuple[Purpose, ...]] = get_args(Purpose)

PERSON: Final = ("given_name", "family_name", "date_of_birth", "nationality")
ADDRESS: Final = ("address_line1", "address_postcode", "address_country")
DOCUMENT_DATA: Final = ("document_number", "document_expiry", "document_issuing_state")
DOCUMENT: Final = ("document_type", *DOCUMENT_DATA)
ZONE: Final = "document_mrz"
"""An input that replaces all of ``DOCUMENT_DATA``."""
EVIDENCE: Final = ("document_evidence", "selfie")

_NEEDS: Final[dict[Flow, tuple[str, ...]]] = {
    "basic": PERSON + ADDRESS,
    "document": PERSON + ADDRESS + DOCUMENT,
    "full": PERSON + ADDRESS + DOCUMENT + EVIDENCE,
}
INPUTS: Final = _NEEDS["full"]
"""All inputs that a case can await, in the order in which ``awaiting`` lists them."""

PURPOSE_OF: Final[dict[str, Purpose]] = {
    **dict.fromkeys(PERSON, "identity_verification"),
    **dict.fromkeys(ADDRESS, "address_verification"),
    **dict.fromkeys((*DOCUMENT_DATA, ZONE), "document_verification"),
    **dict.fromkeys(EVIDENCE, "evidence_review"),
}
"""The only purpose for which each value in custody may be read. The document's type is not personal and is
stored with the case."""


def needs(flow: Flow) -> tuple[str, ...]:
    """The inputs that a new case of ``flow`` awaits."""
    return _NEEDS[flow]


def suffices(flow: Flow, demanded: str | None) -> bool:
    """Whether ``flow`` is at least as strong as ``demanded``; true when there is no demand."""
    return demanded not in FLOWS or FLOWS.index(flow) >= FLOWS.index(demanded)


def still_awaited(awaiting: Iterable[str], given: Collection[str]) -> tuple[str, ...]:
    """The inputs of ``awaiting`` that are still missing after ``given``."""
    covered = {*given, *(DOCUMENT_DATA if ZONE in given else ())}
    return tuple(name for name in awaiting if name not in covered)


def inputs_to_drop(names: Collection[str]) -> frozenset[str]:
    """The inputs to drop when ``names`` are requested again: with any field of a document also its zone,
    which could contradict the new value."""
    return frozenset({*names, *((ZONE,) if {*DOCUMENT} & {*names} else ())})


def in_order(names: Collection[str]) -> tuple[str, ...]:
    """``names`` in the order in which ``awaiting`` lists inputs."""
    return tuple(name for name in INPUTS if name in names)
