"""KYC checks over the API: awaited inputs, states, and the ``kyc_state`` of their cardholder."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from engine.kyc.flows import needs
from tests.support.api.driver import Caller
from tests.support.api.kyc.applicants import ADDRESS, BASIC, DOCUMENT, PERSON, ZONE, applicant, begin, submit
from tests.support.api.stack import Installation


async def told(acme: Caller, holder: Any) -> list[tuple[str | None, list[str]]]:
    """``kyc_state`` and ``changed`` of each ``cardholder.updated`` event of ``holder``, oldest first."""
    events = (await acme.get("/v1/events?limit=100"))["data"]
    return [
        (event["data"]["kyc_state"], event["data"]["changed"])
        for event in reversed(events)
        if event["type"] == "cardholder.updated" and event["data"]["cardholder_id"] == holder["id"]
    ]


async def test_new_check_is_pending_and_awaits_every_input(acme: Caller) -> None:
    holder = await applicant(acme)
    check = await begin(acme, "document", holder)
    assert check | {"id": "", "created_at": "", "expires_at": ""} == {
        "id": "",
        "cardholder_id": holder["id"],
        "flow_key": "document",
        "state": "pending",
        "awaiting": list(needs("document")),
        "reason_codes": [],
        "created_at": "",
        "completed_at": None,
        "expires_at": "",
    }
    assert await acme.get(f"/v1/kyc/checks/{check['id']}") == check
    assert (await acme.get("/v1/kyc/checks"))["data"] == [check]
    assert (await acme.get(f"/v1/cardholders/{holder['id']}"))["kyc_state"] == "pending"


@pytest.mark.parametrize(
    ("flow", "steps"),
    [
        ("basic", [PERSON, ADDRESS]),
        ("basic", [{name: value} for name, value in BASIC.items()]),
        ("document", [BASIC, DOCUMENT]),
        ("document", [BASIC | {"document_type": "passport"}, {"document_mrz": ZONE}]),
        ("document", [{"document_mrz": ZONE.replace("\n", "")}, BASIC, {"document_type": "passport"}]),
    ],
)
async def test_each_submission_shortens_awaiting_until_evaluation(
    acme: Caller, flow: str, steps: list[dict[str, str]]
) -> None:
    holder = await applicant(acme)
    check = await begin(acme, flow, holder)
    awaited = set(check["awaiting"])
    for step in steps[:-1]:
        check = await submit(acme, check, step)
        covered = {"document_number", "document_expiry", "document_issuing_state"}
        awaited -= {*step, *(covered if "document_mrz" in step else ())}
        assert (check["state"], set(check["awaiting"])) == ("pending", awaited)
    check = await submit(acme, check, steps[-1])
    assert (check["state"], check["awaiting"], check["reason_codes"]) == ("passed", [], [])
    assert check["completed_at"] is not None
    assert (check.get("document_type") == "passport") == (flow == "document")
    assert (await acme.get(f"/v1/cardholders/{holder['id']}"))["kyc_state"] == "passed"
    assert await told(acme, holder) == [("pending", ["kyc_state"]), ("passed", ["kyc_state"])]


@pytest.mark.parametrize(
    ("family_name", "state", "codes"),
    [
        ("FAIL", "failed", ["risk_threshold"]),
        ("REVIEW", "in_review", ["risk_threshold"]),
        ("Fail", "passed", []),
    ],
)
async def test_family_name_decides_the_result_in_test_mode(
    acme: Caller, family_name: str, state: str, codes: list[str]
) -> None:
    holder = await applicant(acme)
    check = await submit(acme, await begin(acme, "basic", holder), BASIC | {"family_name": family_name})
    assert (check["state"], check["reason_codes"]) == (state, codes)
    assert (check["completed_at"] is None) == (state == "in_review")
    assert (check["expires_at"] is None) == (state != "passed")
    assert (await acme.get(f"/v1/cardholders/{holder['id']}"))["kyc_state"] == state
    refused = await submit(acme, check, BASIC, 409)
    assert refused["type"] == "/problems/kyc-not-collecting"


async def test_resubmitted_value_replaces_the_earlier_one(acme: Caller) -> None:
    check = await begin(acme)
    await submit(acme, check, {"family_name": "FAIL"})
    check = await submit(acme, check, BASIC)
    assert check["state"] == "passed"


@pytest.mark.parametrize(
    ("data", "pointer", "code"),
    [
        ({}, "", "missing"),
        ({"nickname": "G"}, "/nickname", "unknown_field"),
        ({"given_name": ""}, "/given_name", "length"),
        ({"given_name": None}, "/given_name", "type"),
        ({"given_name": "a\tb"}, "/given_name", "format"),
        ({"date_of_birth": "17-05-1990"}, "/date_of_birth", "format"),
        ({"date_of_birth": "1990-02-30"}, "/date_of_birth", "format"),
        ({"date_of_birth": "2090-01-01"}, "/date_of_birth", "range"),
        ({"nationality": "IRL"}, "/nationality", "format"),
        ({"nationality": "ZZ"}, "/nationality", "not_allowed"),
        ({"address_country": "ie"}, "/address_country", "format"),
        ({"document_type": "library_card"}, "/document_type", "not_allowed"),
        ({"document_number": "!"}, "/document_number", "format"),
        ({"document_expiry": "2033"}, "/document_expiry", "format"),
        ({"document_mrz": "P<IRL"}, "/document_mrz", "length"),
        ({"document_mrz": ZONE.replace("CNRY77331", "CNRY77332")}, "/document_mrz", "invalid"),
    ],
)
async def test_invalid_submission_is_refused_without_repeating_values(
    acme: Caller, data: dict[str, Any], pointer: str, code: str
) -> None:
    """The data are validated before the check is looked up. The errors repeat no submitted value."""
    path = "/v1/kyc/checks/019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e/submissions"
    problem = await acme.post(path, data, 400)
    assert [(error["pointer"], error["code"]) for error in problem["errors"]] == [(pointer, code)]
    assert all(str(value) not in str(problem["errors"]) for value in data.values() if value)


async def test_flow_below_the_programme_policy_is_refused(acme: Caller) -> None:
    holder = await applicant(acme, await acme.programme(kyc_policy="document"))
    for flow, status in (("basic", 409), ("document", 201), ("full", 201)):
        body = {"cardholder_id": holder["id"], "flow_key": flow}
        answer = await acme.post("/v1/kyc/checks", body, status)
        assert status == 201 or answer["type"] == "/problems/kyc-flow-below-policy"


async def test_document_type_that_the_programme_does_not_accept_is_refused(acme: Caller) -> None:
    programme = await acme.programme(kyc_document_types=["national_id"])
    check = await begin(acme, "document", await applicant(acme, programme))
    refused = await submit(acme, check, DOCUMENT, 409)
    assert refused["type"] == "/problems/document-type-not-accepted"
    check = await submit(acme, check, BASIC | DOCUMENT | {"document_type": "national_id"})
    assert (check["state"], check["document_type"]) == ("passed", "national_id")


async def test_check_of_closed_or_unknown_cardholder_is_refused(acme: Caller) -> None:
    programme = await acme.programme()
    holder = await applicant(acme, programme)
    body = {"cardholder_id": holder["id"], "flow_key": "basic"}
    await acme.patch(f"/v1/cardholders/{holder['id']}", {"status": "closed"})
    assert (await acme.post("/v1/kyc/checks", body, 409))["type"] == "/problems/cardholder-closed"
    await acme.patch(f"/v1/programs/{programme['id']}", {"status": "closed"})
    assert (await acme.post("/v1/kyc/checks", body, 409))["type"] == "/problems/programme-closed"
    body["cardholder_id"] = programme["id"]
    assert (await acme.post("/v1/kyc/checks", body, 404))["type"] == "/problems/not-found"
    for wrong in ({"flow_key": "none"}, {"flow_key": None}, {"cardholder_id": "1"}):
        assert (await acme.post("/v1/kyc/checks", body | wrong, 400))["type"] == "/problems/validation-failed"


async def test_list_is_filtered_by_cardholder_and_state(acme: Caller) -> None:
    programme = await acme.programme()
    ada, bob = await applicant(acme, programme), await applicant(acme, programme)
    first, second = await begin(acme, "basic", ada), await begin(acme, "basic", bob)
    await submit(acme, second, BASIC)

    async def listed(query: str) -> list[str]:
        return [check["id"] for check in (await acme.get(f"/v1/kyc/checks?{query}"))["data"]]

    assert await listed("") == [second["id"], first["id"]]
    assert await listed(f"cardholder_id={ada['id']}") == [first["id"]]
    assert await listed("state=passed") == [second["id"]]
    assert await listed("state=pending") == [first["id"]]
    assert await listed("state=failed") == []
    assert (await acme.send("GET", "/v1/kyc/checks?state=lost")).status_code == 400


async def test_expired_check_reads_as_expired_before_the_sweep(running: Installation, acme: Caller) -> None:
    holder = await applicant(acme)
    check = await begin(acme, "basic", holder)
    passed = await submit(acme, await begin(acme), BASIC)
    for each in (check, passed):
        age = "UPDATE kyc_checks SET expires_at = now() - interval '1 hour' WHERE id = $1"
        await running.services.pool.execute(age, each["id"])
        shown = await acme.get(f"/v1/kyc/checks/{each['id']}")
        assert (shown["state"], shown["awaiting"]) == ("expired", [])
        assert shown["completed_at"] == shown["expires_at"] < check["created_at"]
        assert (await submit(acme, each, BASIC, 409))["type"] == "/problems/kyc-not-collecting"
    listed = (await acme.get("/v1/kyc/checks?state=expired"))["data"]
    assert {each["id"] for each in listed} == {check["id"], passed["id"]}


async def test_expired_check_blocks_issuing_of_cards(running: Installation, acme: Caller) -> None:
    programme = await acme.programme()
    product, holder = await acme.product(programme, kyc_flow="basic"), await applicant(acme, programme)
    check = await submit(acme, await begin(acme, "basic", holder), BASIC)
    await acme.card(product, holder)
    age = "UPDATE kyc_checks SET expires_at = now() - interval '1 second' WHERE id = $1"
    await running.services.pool.execute(age, check["id"])
    body = {"card_product_id": product["id"], "cardholder_id": holder["id"]}
    assert (await acme.post("/v1/cards", body, 409))["type"] == "/problems/kyc-not-passed"


async def test_passed_check_expires_after_two_years_or_with_its_document(
    running: Installation, acme: Caller
) -> None:
    """A document check expires at the end of the document's last day if that is earlier."""
    basic = await submit(acme, await begin(acme), BASIC)
    years = "SELECT (expires_at - completed_at) FROM kyc_checks WHERE id = $1"
    assert await running.services.pool.fetchval(years, basic["id"]) == timedelta(days=730)
    soon = DOCUMENT | {"document_expiry": "2027-03-31"}
    document = await submit(acme, await begin(acme, "document"), BASIC | soon)
    assert document["expires_at"] == "2027-04-01T00:00:00.000Z"
    gone = DOCUMENT | {"document_expiry": "2020-01-01"}
    tested = await submit(acme, await begin(acme, "document"), BASIC | gone)
    assert await running.services.pool.fetchval(years, tested["id"]) == timedelta(days=730)


async def test_newest_check_sets_the_kyc_state_of_the_cardholder(acme: Caller) -> None:
    holder = await applicant(acme)

    async def state() -> str | None:
        return str((await acme.get(f"/v1/cardholders/{holder['id']}"))["kyc_state"])

    await submit(acme, await begin(acme, "basic", holder), BASIC)
    renewal = await begin(acme, "basic", holder)
    assert await state() == "passed"
    await submit(acme, renewal, BASIC | {"family_name": "FAIL"})
    assert await state() == "failed"
    again = await begin(acme, "basic", holder)
    assert await state() == "pending"
    await submit(acme, again, BASIC)
    assert await state() == "passed"
    assert [kyc_state for kyc_state, _ in await told(acme, holder)] == [
        *("pending", "passed", "failed", "pending", "passed")
    ]


async def test_repeated_submission_is_replayed_byte_for_byte(acme: Caller) -> None:
    check = await begin(acme)
    path = f"/v1/kyc/checks/{check['id']}/submissions"
    first = await acme.send("POST", path, BASIC, key="one")
    again = await acme.send("POST", path, BASIC, key="one")
    assert (first.status_code, first.content) == (200, again.content)
    assert again.headers["Idempotent-Replayed"] == "true"
    other = await acme.send("POST", path, PERSON, key="one")
    assert (other.status_code, other.json()["type"]) == (409, "/problems/idempotency-key-reused")
    missing = await acme.send("POST", path, BASIC, key=None)
    assert missing.json()["type"] == "/problems/idempotency-key-missing"


async def test_concurrent_submissions_conflict_and_none_is_lost(running: Installation, acme: Caller) -> None:
    """The loser of a conflict gets 409 and may retry under the same key."""
    check = await begin(acme)
    path = f"/v1/kyc/checks/{check['id']}/submissions"
    parts = {f"key-{name}": {name: value} for name, value in BASIC.items()}
    overtaken = 0
    while parts:
        answers = await asyncio.gather(
            *(acme.send("POST", path, part, key=key) for key, part in parts.items())
        )
        for key, answer in zip(list(parts), answers, strict=True):
            if answer.status_code == 200:
                del parts[key]
            else:
                assert (answer.status_code, answer.json()["type"]) == (409, "/problems/kyc-check-changed")
                overtaken += 1
    assert overtaken
    assert (await acme.get(f"/v1/kyc/checks/{check['id']}"))["state"] == "passed"
    kept = "SELECT count(*) FROM kyc_values WHERE check_id = $1"
    assert await running.services.pool.fetchval(kept, check["id"]) == len(BASIC)


async def test_each_client_is_limited_to_sixty_writes_a_minute(
    running: Installation, acme: Caller, tenant: str
) -> None:
    path = "/v1/kyc/checks/019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e/submissions"
    answers = await asyncio.gather(*(acme.send("POST", path, PERSON) for _ in range(61)))
    assert sorted(answer.status_code for answer in answers) == [404] * 60 + [429]
    limited = next(answer for answer in answers if answer.status_code == 429)
    assert limited.json()["type"] == "/problems/rate-limited"
    assert 1 <= int(limited.headers["retry-after"]) <= 60
    assert (await acme.send("GET", "/v1/kyc/checks")).status_code == 200
    assert (await acme.send("POST", "/v1/kyc/checks", {})).status_code == 429
    colleague = await running.caller(tenant, role="user")
    assert (await colleague.send("POST", path, PERSON)).status_code == 404


async def test_submission_needs_the_write_scope_and_no_admin_role(
    running: Installation, acme: Caller, tenant: str
) -> None:
    user = await running.caller(tenant, role="user")
    check = await submit(user, await begin(acme), BASIC)
    assert check["state"] == "passed"
    reader = await running.caller(tenant, scopes=("kyc:read",))
    refused = await reader.send("POST", f"/v1/kyc/checks/{check['id']}/submissions", BASIC)
    assert (refused.status_code, refused.json()["type"]) == (403, "/problems/insufficient-scope")
