"""The built-in provider: it compares an applicant's data with each other, with the document's
machine-readable zone, with the calendar and with the cardholder.

Each rule returns no finding, or a reason with its severity. The most severe finding decides, and the verdict
lists all reasons. A difference that honest data can explain goes to a reviewer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from enum import IntEnum
from typing import Final

import msgspec

from engine.kyc.facts import CaseFacts, Outcome, Reason, Verdict
from engine.kyc.flows import DOCUMENT, ZONE
from engine.kyc.names import Likeness, compare_with_record, compare_with_zone
from engine.limits import KYC_AGE_YEARS_MIN, KYC_ATTEMPTS_MAX
from engine.mrz.dates import birth_date, expiry_date
from engine.mrz.states import SPECIMEN, alpha2_of
from engine.mrz.zone import Zone, read_zone


class Severity(IntEnum):
    """The consequence of a finding; the largest decides."""

    REVIEW = 1
    ASK_AGAIN = 2
    FAIL = 3


class Finding(msgspec.Struct, frozen=True):
    """One reason and its severity."""

    reason: Reason
    severity: Severity


Rule = Callable[[CaseFacts, Zone | None], Finding | None]

_OUTCOMES: Final[dict[Severity, Outcome]] = {
    Severity.REVIEW: "review",
    Severity.ASK_AGAIN: "more_input",
    Severity.FAIL: "failed",
}
_ZONE_CODES: Final = {"passport": "P", "national_id": "ICA", "residence_permit": "ICAR"}
"""First letters of the document code that each type of document has; a driving licence has no zone."""
_NOT_ALPHANUMERIC: Final = re.compile(r"[^A-Z0-9]")


def evaluate(facts: CaseFacts) -> Verdict:
    """The verdict on a complete case."""
    text = facts.given.get(ZONE)
    read = None if text is None else read_zone(text)
    zone = read if isinstance(read, Zone) else None
    found = [finding for rule in RULES if (finding := rule(facts, zone)) is not None]
    most_severe = max((finding.severity for finding in found), default=None)
    if most_severe is None:
        return Verdict("passed")
    reasons = tuple(dict.fromkeys(finding.reason for finding in found))
    if most_severe is not Severity.ASK_AGAIN:
        return Verdict(_OUTCOMES[most_severe], reasons)
    if facts.attempts + 1 >= KYC_ATTEMPTS_MAX:
        return Verdict("failed", (*reasons, "max_attempts"))
    return Verdict("more_input", reasons, DOCUMENT)


def document_expiry(given: dict[str, str], today: date) -> date | None:
    """The document's last day of validity: the given one, or else that of its zone."""
    if "document_expiry" in given:
        return date.fromisoformat(given["document_expiry"])
    zone = read_zone(given[ZONE]) if ZONE in given else None
    return expiry_date(zone.expiry, today) if isinstance(zone, Zone) else None


def _age(facts: CaseFacts, _zone: Zone | None) -> Finding | None:
    born, today = date.fromisoformat(facts.given["date_of_birth"]), facts.today
    years = today.year - born.year - ((today.month, today.day) < (born.month, born.day))
    return Finding("age_below_minimum", Severity.FAIL) if years < KYC_AGE_YEARS_MIN else None


def _name_on_document(facts: CaseFacts, zone: Zone | None) -> Finding | None:
    if zone is None:
        return None
    likeness = compare_with_zone(facts.given["given_name"], facts.given["family_name"], zone)
    if likeness is Likeness.SAME:
        return None
    different = likeness is Likeness.DIFFERENT
    return Finding("name_mismatch", Severity.FAIL if different else Severity.REVIEW)


def _name_of_cardholder(facts: CaseFacts, _zone: Zone | None) -> Finding | None:
    """A different name goes to review: names change, for example by marriage."""
    pairs = (
        (facts.given["given_name"], facts.holder.given_name),
        (facts.given["family_name"], facts.holder.family_name),
    )
    same = all(compare_with_record(one, other) is Likeness.SAME for one, other in pairs)
    return None if same else Finding("name_mismatch", Severity.REVIEW)


def _birth_on_document(facts: CaseFacts, zone: Zone | None) -> Finding | None:
    if zone is None:
        return None
    born = birth_date(zone.birth, facts.today)
    if born is None:
        return Finding("date_of_birth_mismatch", Severity.REVIEW)
    same = born.isoformat() == facts.given["date_of_birth"]
    return None if same else Finding("date_of_birth_mismatch", Severity.FAIL)


def _birth_of_cardholder(facts: CaseFacts, _zone: Zone | None) -> Finding | None:
    known = facts.holder.date_of_birth
    same = known is None or known.isoformat() == facts.given["date_of_birth"]
    return None if same else Finding("date_of_birth_mismatch", Severity.REVIEW)


def _address_of_cardholder(facts: CaseFacts, _zone: Zone | None) -> Finding | None:
    known = (facts.holder.country, facts.holder.postcode)
    given = (facts.given["address_country"], facts.given["address_postcode"])
    same = all(
        one is None or _alphanumerics(one) == _alphanumerics(two)
        for one, two in zip(known, given, strict=True)
    )
    return None if same else Finding("address_mismatch", Severity.REVIEW)


def _document_number(facts: CaseFacts, zone: Zone | None) -> Finding | None:
    given = facts.given.get("document_number")
    if zone is None or given is None or _alphanumerics(given) == _alphanumerics(zone.number):
        return None
    return Finding("id_number_mismatch", Severity.FAIL)


def _document_valid(facts: CaseFacts, _zone: Zone | None) -> Finding | None:
    """Compare the document's expiry with today: a document is valid to the end of its last day."""
    last = document_expiry(facts.given, facts.today)
    return Finding("document_expired", Severity.FAIL) if last is not None and last < facts.today else None


def _document_genuine(_facts: CaseFacts, zone: Zone | None) -> Finding | None:
    if zone is not None and SPECIMEN in (zone.issuer, zone.nationality):
        return Finding("document_unreadable", Severity.FAIL)
    return None


def _document_consistent(facts: CaseFacts, zone: Zone | None) -> Finding | None:
    """Compare the document's fields with its zone; contradicting values are requested again."""
    if zone is None:
        return None
    given, last = facts.given, expiry_date(zone.expiry, facts.today)
    agrees = (
        zone.code[0] in _ZONE_CODES.get(facts.document_type or "", "")
        and given.get("document_issuing_state") in {None, alpha2_of(zone.issuer)}
        and (last is None or given.get("document_expiry") in {None, last.isoformat()})
    )
    return None if agrees else Finding("document_unreadable", Severity.ASK_AGAIN)


def _nationality(facts: CaseFacts, zone: Zone | None) -> Finding | None:
    """A different nationality goes to review: people can have two, and some documents state none."""
    if zone is None or alpha2_of(zone.nationality) == facts.given["nationality"]:
        return None
    return Finding("risk_threshold", Severity.REVIEW)


def _alphanumerics(text: str) -> str:
    return _NOT_ALPHANUMERIC.sub("", text.upper())


RULES: Final[tuple[Rule, ...]] = (
    _age,
    _name_on_document,
    _name_of_cardholder,
    _birth_on_document,
    _birth_of_cardholder,
    _address_of_cardholder,
    _document_number,
    _document_valid,
    _document_genuine,
    _document_consistent,
    _nationality,
)
"""The rules in the order in which their reasons are listed."""
