"""The built-in provider: differences in the data, and their verdicts."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from engine.kyc.evaluation import document_expiry, evaluate
from engine.kyc.facts import CaseFacts, Holder, Verdict
from engine.kyc.flows import DOCUMENT
from engine.kyc.triggers import decide_by_name
from engine.mrz.zone import Zone, write_zone
from tests.support.engine.kyc.build import GIVEN, TODAY, facts

NO_DOCUMENT = ("document_number", "document_expiry", "document_issuing_state", "document_mrz")
NO_FIELDS = NO_DOCUMENT[:3]


@pytest.mark.parametrize(
    "case",
    [
        facts(),
        facts(without=NO_DOCUMENT, document_type=None),
        facts(without=NO_FIELDS),
        facts(without=("document_mrz",)),
        facts(date_of_birth="2008-11-21", zone={"birth": "081121"}, holder=Holder("Aoife", "O'Connor")),
        facts(document_expiry="2026-11-21", zone={"expiry": "261121"}),
        facts(holder=Holder("AOIFE", "OConnor", None, None, None)),
        facts(document_number="pa 1234567"),
        facts(zone={"size": "TD1", "code": "I"}, document_type="national_id"),
        facts(zone={"size": "TD2", "code": "C"}, document_type="residence_permit"),
    ],
    ids=lambda case: "",
)
def test_consistent_data_pass(case: CaseFacts) -> None:
    assert evaluate(case) == Verdict("passed")


@pytest.mark.parametrize(
    ("changes", "outcome", "codes"),
    [
        ({"date_of_birth": "2008-11-22", "zone": {"birth": "081122"}, "holder": Holder("Aoife", "O'Connor")},
         "failed", ["age_below_minimum"]),
        ({"family_name": "Byrne", "holder": Holder("Aoife", "Byrne")}, "failed", ["name_mismatch"]),
        ({"given_name": "Marie", "holder": Holder("Marie", "O'Connor")}, "review", ["name_mismatch"]),
        ({"given_name": "王", "holder": Holder("王", "O'Connor")}, "review", ["name_mismatch"]),
        ({"holder": Holder("Aoife", "Byrne")}, "review", ["name_mismatch"]),
        ({"zone": {"birth": "900518"}}, "failed", ["date_of_birth_mismatch"]),
        ({"zone": {"birth": "9005<<"}}, "review", ["date_of_birth_mismatch"]),
        ({"holder": Holder("Aoife", "O'Connor", date(1991, 5, 17))}, "review", ["date_of_birth_mismatch"]),
        ({"address_country": "GB"}, "review", ["address_mismatch"]),
        ({"address_postcode": "D03"}, "review", ["address_mismatch"]),
        ({"document_number": "PA1234568"}, "failed", ["id_number_mismatch"]),
        ({"document_expiry": "2026-11-20", "zone": {"expiry": "261120"}}, "failed", ["document_expired"]),
        ({"without": NO_FIELDS, "zone": {"expiry": "120415"}}, "failed", ["document_expired"]),
        ({"zone": {"issuer": "UTO"}, "without": NO_FIELDS}, "failed", ["document_unreadable"]),
        ({"document_type": "national_id"}, "more_input", ["document_unreadable"]),
        ({"document_type": "driving_licence"}, "more_input", ["document_unreadable"]),
        ({"document_issuing_state": "GB"}, "more_input", ["document_unreadable"]),
        ({"document_expiry": "2033-02-27"}, "more_input", ["document_unreadable"]),
        ({"nationality": "FR"}, "review", ["risk_threshold"]),
        ({"zone": {"nationality": "XXA"}}, "review", ["risk_threshold"]),
        # The verdict lists all reasons in the order of the rules; the most severe decides.
        ({"nationality": "FR", "document_number": "X1", "address_country": "GB"},
         "failed", ["address_mismatch", "id_number_mismatch", "risk_threshold"]),
        ({"document_type": "national_id", "attempts": 1}, "more_input", ["document_unreadable"]),
        ({"document_type": "national_id", "attempts": 2}, "failed", ["document_unreadable", "max_attempts"]),
    ],
)  # fmt: skip
def test_difference_gives_a_reason(changes: dict[str, Any], outcome: str, codes: list[str]) -> None:
    verdict = evaluate(facts(**changes))
    assert (verdict.outcome, list(verdict.reason_codes)) == (outcome, codes)
    assert verdict.awaiting == (DOCUMENT if outcome == "more_input" else ())


def test_specimen_documents_fail() -> None:
    text = "P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<\nL898902C36UTO7408122F1204159ZE184226B<<<<<10"
    verdict = evaluate(
        facts(
            without=NO_FIELDS,
            document_mrz=text,
            given_name="Anna Maria",
            family_name="Eriksson",
            date_of_birth="1974-08-12",
            holder=Holder("Anna Maria", "Eriksson"),
        )
    )
    assert verdict.outcome == "failed"
    assert verdict.reason_codes == ("document_expired", "document_unreadable", "risk_threshold")


def test_document_is_valid_on_its_last_day() -> None:
    assert document_expiry(GIVEN, TODAY) == date(2033, 2, 28)
    assert document_expiry({"document_expiry": "2030-01-01"}, TODAY) == date(2030, 1, 1)
    zone = {"document_mrz": GIVEN["document_mrz"]}
    assert document_expiry(zone, TODAY) == date(2033, 2, 28)
    assert document_expiry({}, TODAY) is None


@pytest.mark.parametrize(
    ("family_name", "outcome"),
    [("FAIL", "failed"), ("REVIEW", "review"), ("Fail", "passed"), ("Byron", "passed"), ("FAIL ", "passed")],
)
def test_family_name_decides_in_test_mode(family_name: str, outcome: str) -> None:
    assert decide_by_name(facts(family_name=family_name, date_of_birth="2020-01-01")).outcome == outcome


def test_repr_of_facts_has_no_personal_data() -> None:
    shown = repr(facts()) + str(facts().holder) + f"{facts()!s}"
    assert not [value for value in GIVEN.values() if value in shown]
    assert isinstance(write_zone(Zone("TD3", "P", "IRL", "1", "IRL", "900517", "", "330228", ("A",))), str)
