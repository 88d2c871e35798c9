"""Manual review of KYC checks."""

from __future__ import annotations

from typing import Any

import pytest

from engine.kyc.flows import DOCUMENT
from tests.support.api.driver import Caller
from tests.support.api.kyc import applicants
from tests.support.api.kyc.applicants import BASIC, applicant, begin, submit
from tests.support.api.stack import Installation

REVIEW = {"family_name": "REVIEW"}


async def in_review(acme: Caller, flow: str = "basic", holder: Any = None) -> Any:
    """A check that waits for manual review."""
    data = BASIC | REVIEW | (applicants.DOCUMENT if flow == "document" else {})
    check = await submit(acme, await begin(acme, flow, holder), data)
    assert (check["state"], check["expires_at"]) == ("in_review", None)
    return check


async def review(caller: Caller, check: Any, status: int = 200, **body: Any) -> Any:
    """Submit a review; returns the check."""
    return await caller.post(f"/v1/kyc/checks/{check['id']}/review", body, status)


async def test_passing_review_is_logged_and_not_repeatable(running: Installation, acme: Caller) -> None:
    holder = await applicant(acme)
    check = await review(acme, await in_review(acme, "document", holder), outcome="passed")
    assert (check["state"], check["reason_codes"]) == ("passed", [])
    assert (await acme.get(f"/v1/cardholders/{holder['id']}"))["kyc_state"] == "passed"
    # The document's expiry date sets the validity of the check; the access log names its reader.
    readers = "SELECT DISTINCT reader, purpose FROM kyc_accesses WHERE check_id = $1"
    (row,) = await running.services.pool.fetch(readers, check["id"])
    assert (row["reader"].partition(" ")[0], row["purpose"]) == ("client", "document_verification")
    assert (await review(acme, check, 409, outcome="passed"))["type"] == "/problems/kyc-not-in-review"


async def test_failing_review_stores_its_reason_codes(acme: Caller) -> None:
    check = await review(
        acme, await in_review(acme), outcome="failed", reason_codes=["watchlist_match", "risk_threshold"]
    )
    assert (check["state"], check["reason_codes"]) == ("failed", ["watchlist_match", "risk_threshold"])
    kept = await review(acme, await in_review(acme), outcome="failed")
    assert kept["reason_codes"] == ["risk_threshold"]


async def test_review_for_more_input_discards_the_awaited_values(running: Installation, acme: Caller) -> None:
    holder = await applicant(acme)
    check = await in_review(acme, "document", holder)
    asked = ["document_type", "document_expiry", "family_name", "document_number", "document_issuing_state"]
    check = await review(
        acme, check, outcome="more_input", awaiting=asked, reason_codes=["document_unreadable"]
    )
    assert (check["state"], check["awaiting"]) == ("pending", ["family_name", *DOCUMENT])
    assert (check["reason_codes"], check["completed_at"]) == (["document_unreadable"], None)
    assert "document_type" not in check
    kept = "SELECT field FROM kyc_values WHERE check_id = $1"
    fields = {row["field"] for row in await running.services.pool.fetch(kept, check["id"])}
    assert fields == set(BASIC) - {"family_name"}
    assert (await acme.get(f"/v1/cardholders/{holder['id']}"))["kyc_state"] == "pending"
    check = await submit(acme, check, applicants.DOCUMENT | {"family_name": "Byron"})
    assert (check["state"], check["reason_codes"]) == ("passed", [])


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/outcome"),
        ({"outcome": "maybe"}, "/outcome"),
        ({"outcome": "more_input"}, "/awaiting"),
        ({"outcome": "passed", "awaiting": ["selfie"]}, "/awaiting"),
        ({"outcome": "more_input", "awaiting": ["shoe_size"]}, "/awaiting/0"),
        ({"outcome": "failed", "reason_codes": ["bad_mood"]}, "/reason_codes/0"),
        ({"outcome": "passed", "reason_codes": ["risk_threshold"]}, "/reason_codes"),
    ],
)
async def test_invalid_review_is_refused(acme: Caller, body: dict[str, Any], pointer: str) -> None:
    check = {"id": "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e"}
    problem = await review(acme, check, 400, **body)
    assert [error["pointer"] for error in problem["errors"]] == [pointer]


async def test_review_needs_an_admin_and_a_check_in_review(
    running: Installation, acme: Caller, tenant: str
) -> None:
    user = await running.caller(tenant, role="user")
    check = await in_review(acme)
    assert (await review(user, check, 403, outcome="passed"))["type"] == "/problems/role-not-allowed"
    collecting = await begin(acme)
    refused = await review(acme, collecting, 409, outcome="passed")
    assert refused["type"] == "/problems/kyc-not-in-review"
