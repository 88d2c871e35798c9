"""A case and its changes: each change is a new version and a legal transition."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.instant import DAY_MS
from engine.kyc.case import Case, as_of, conclude, erased, lapsed, open_case, postpone, receive, review
from engine.kyc.facts import Verdict
from engine.kyc.flows import DOCUMENT, FLOWS, Flow, needs
from engine.kyc.states import COMPLETED, TRANSITIONS
from engine.limits import KYC_PASSED_DAYS, KYC_PENDING_DAYS, KYC_RETRY_SECONDS_MAX, KYC_TRIES_MAX
from tests.support.engine.kyc.build import NOW_MS, complete_case

PASS, FAIL = Verdict("passed"), Verdict("failed", ("age_below_minimum",))
REVIEW, AGAIN = (
    Verdict("review", ("name_mismatch",)),
    Verdict("more_input", ("document_unreadable",), DOCUMENT),
)
LATER_MS = NOW_MS + 60_000


def test_new_case_awaits_all_inputs_for_thirty_days() -> None:
    for flow in FLOWS:
        case = open_case("case-1", flow, NOW_MS)
        assert (case.state, case.version, case.awaiting) == ("pending", 1, needs(flow))
        assert case.expires_ms == NOW_MS + KYC_PENDING_DAYS * DAY_MS


def test_later_input_replaces_the_earlier() -> None:
    case = receive(open_case("c", "document", NOW_MS), {"given_name": "t1"}, None, LATER_MS)
    case = receive(case, {"given_name": "t2", "document_mrz": "t3"}, "passport", LATER_MS)
    assert (case.state, case.version, case.updated_ms) == ("pending", 3, LATER_MS)
    assert case.tokens == {"given_name": "t2", "document_mrz": "t3"}
    assert case.document_type == "passport"
    assert not {"given_name", "document_number", "document_type"} & set(case.awaiting)
    assert case.expires_ms == NOW_MS + KYC_PENDING_DAYS * DAY_MS


@pytest.mark.parametrize(
    ("verdict", "state", "codes"),
    [
        (PASS, "passed", ()),
        (FAIL, "failed", ("age_below_minimum",)),
        (REVIEW, "in_review", ("name_mismatch",)),
        (AGAIN, "pending", ("document_unreadable",)),
    ],
)
def test_state_after_a_verdict(verdict: Verdict, state: str, codes: tuple[str, ...]) -> None:
    case = conclude(complete_case("document"), verdict, None, LATER_MS)
    assert (case.state, case.reason_codes, case.attempts) == (state, codes, 1)
    assert case.completed_ms == (LATER_MS if state in COMPLETED else None)
    assert case.awaiting == (DOCUMENT if state == "pending" else ())


def test_document_type_is_fixed_once_its_picture_is_attached() -> None:
    assert not complete_case("document").evidence_attached
    assert complete_case("full").evidence_attached


def test_inputs_requested_again_are_dropped() -> None:
    case = receive(complete_case("document"), {"document_mrz": "zone"}, None, NOW_MS)
    case = conclude(case, AGAIN, None, LATER_MS)
    assert case.document_type is None
    assert set(case.tokens) == set(needs("basic"))
    assert case.expires_ms == LATER_MS + KYC_PENDING_DAYS * DAY_MS


@pytest.mark.parametrize(
    ("document_expiry", "expires_ms"),
    [
        (None, LATER_MS + KYC_PASSED_DAYS * DAY_MS),
        (date(2099, 1, 1), LATER_MS + KYC_PASSED_DAYS * DAY_MS),
        (date(2026, 11, 30), 1_796_083_200_000),
        (date(2026, 11, 21), 1_795_305_600_000),
        (date(2026, 11, 20), LATER_MS + KYC_PASSED_DAYS * DAY_MS),
    ],
)
def test_expiry_of_a_passed_case(document_expiry: date | None, expires_ms: int) -> None:
    case = conclude(complete_case(), PASS, document_expiry, LATER_MS)
    assert case.expires_ms == expires_ms


def test_case_expires_at_its_expiry() -> None:
    case = open_case("case-1", "basic", NOW_MS)
    assert case.expires_ms is not None
    assert not lapsed(case, case.expires_ms - 1)
    assert as_of(case, case.expires_ms - 1) is case
    ended = as_of(case, case.expires_ms + 5)
    assert (ended.state, ended.completed_ms, ended.expires_ms) == (
        "expired",
        case.expires_ms,
        case.expires_ms,
    )
    passed = conclude(complete_case(), PASS, None, NOW_MS)
    assert as_of(passed, NOW_MS + KYC_PASSED_DAYS * DAY_MS).state == "expired"
    for verdict in (FAIL, REVIEW):
        case = conclude(complete_case(), verdict, None, NOW_MS)
        assert as_of(case, NOW_MS + 10_000 * DAY_MS) is case


def test_evaluation_without_a_result_is_retried_in_review() -> None:
    case = complete_case()
    pauses: list[int] = []
    while (case := postpone(case, NOW_MS)).evaluate_ms is not None:
        assert case.state == "in_review"
        pauses.append((case.evaluate_ms - NOW_MS) // 1000)
    assert len(pauses) == KYC_TRIES_MAX - 1
    assert pauses[:3] == [5, 10, 20]
    assert max(pauses) <= KYC_RETRY_SECONDS_MAX
    settled = conclude(case, PASS, None, LATER_MS)
    assert (settled.state, settled.tries, settled.evaluate_ms) == ("passed", 0, None)


@pytest.mark.parametrize(
    ("outcome", "codes", "awaiting", "state", "kept"),
    [
        ("passed", (), (), "passed", ()),
        ("failed", ("watchlist_match",), (), "failed", ("watchlist_match",)),
        ("failed", (), (), "failed", ("name_mismatch",)),
        ("more_input", (), ("selfie",), "pending", ("name_mismatch",)),
    ],
)
def test_state_after_a_review(
    outcome: Any, codes: Any, awaiting: Any, state: str, kept: tuple[str, ...]
) -> None:
    before = conclude(complete_case("full"), REVIEW, None, NOW_MS)
    case = review(before, outcome, codes, awaiting, None, LATER_MS)
    assert (case.state, case.reason_codes, case.awaiting) == (state, kept, awaiting)
    assert case.evaluate_ms is None


@pytest.mark.parametrize(
    ("verdict", "state"), [(None, "expired"), (REVIEW, "failed"), (PASS, "passed"), (FAIL, "failed")]
)
def test_erasure_ends_an_open_case(verdict: Verdict | None, state: str) -> None:
    case = complete_case() if verdict is None else conclude(complete_case(), verdict, None, NOW_MS)
    gone = erased(case, LATER_MS)
    assert (gone.state, gone.tokens, gone.awaiting) == (state, {}, ())
    assert gone.version == case.version + 1


def test_change_in_another_state_is_refused() -> None:
    collecting = complete_case()
    reviewed = conclude(collecting, REVIEW, None, NOW_MS)
    passed, failed = (conclude(collecting, verdict, None, NOW_MS) for verdict in (PASS, FAIL))
    expired = as_of(open_case("c", "basic", 0), NOW_MS)
    for case in (reviewed, passed, failed, expired):
        with pytest.raises(ValueError, match="takes no inputs"):
            receive(case, {}, None, NOW_MS)
    for case in (collecting, passed, failed, expired):
        with pytest.raises(ValueError, match="waits for no decision"):
            review(case, "passed", (), (), None, NOW_MS)
    for case in (passed, failed, expired):
        with pytest.raises(ValueError, match="does not become"):
            conclude(case, PASS, None, NOW_MS)
        with pytest.raises(ValueError, match="does not become"):
            postpone(case, NOW_MS)


CHANGES = st.sampled_from(["receive", "conclude", "postpone", "review", "erase", "wait"])


@settings(deadline=None)
@given(st.sampled_from(FLOWS), st.lists(st.tuples(CHANGES, st.integers(0, 3)), max_size=12))
def test_random_histories_keep_to_the_table(flow: Flow, history: list[tuple[str, int]]) -> None:
    case, now_ms = open_case("case-1", flow, NOW_MS), NOW_MS
    for name, choice in history:
        now_ms += DAY_MS * (20 if name == "wait" else 0) + 1
        case, before = _changed(case, name, choice, now_ms), case
        assert case is before or case.version > before.version
        assert case.state == before.state or case.state in TRANSITIONS[before.state]
        assert (case.completed_ms is not None) == (case.state in COMPLETED)
        assert (case.expires_ms is None) == (case.state in ("in_review", "failed"))
        assert case.evaluate_ms is None or case.state == "in_review"
        assert not case.awaiting or case.state == "pending"


def _changed(case: Case, name: str, choice: int, now_ms: int) -> Case:
    try:
        if name == "receive":
            return receive(case, {needs(case.flow)[choice]: f"t{choice}"}, None, now_ms)
        if name == "conclude":
            return conclude(case, (PASS, FAIL, REVIEW, AGAIN)[choice], None, now_ms)
        if name == "postpone":
            return postpone(case, now_ms)
        if name == "review":
            outcomes: Any = ("passed", "failed", "more_input", "more_input")
            return review(case, outcomes[choice], (), ("given_name",), None, now_ms)
        return erased(case, now_ms) if name == "erase" else as_of(case, now_ms)
    except ValueError:
        return case
