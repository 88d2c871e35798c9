"""Evaluation of KYC checks: the comparison in live mode, failing identity providers, retries and sweeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from api.app import create_app
from api.kyc import advance
from api.services import Services
from api.sweepers.kyc import kyc_sweeper, sweep
from engine.kyc.facts import CaseFacts, Verdict
from engine.limits import KYC_TRIES_MAX
from tests.support.api.driver import Caller
from tests.support.api.kyc.applicants import BASIC, DOCUMENT, PERSON, ZONE, applicant, begin, submit
from tests.support.api.stack import Installation


class Provider:
    """An identity provider with a scripted answer; records its requests."""

    def __init__(self, answer: Verdict | Exception | float) -> None:
        self.answer = answer
        self.asked: list[CaseFacts] = []

    def asked_of(self, check: Any) -> int:
        """Number of requests for ``check``; sweeps also evaluate checks of other tests."""
        return sum(facts.check_id == check["id"] for facts in self.asked)

    async def evaluate(self, facts: CaseFacts) -> Verdict:
        self.asked.append(facts)
        if isinstance(self.answer, Exception):
            raise self.answer
        if isinstance(self.answer, float):
            await asyncio.sleep(self.answer)
            return Verdict("passed")
        return self.answer


@pytest_asyncio.fixture(loop_scope="session")
async def live(running: Installation, tenant: str) -> Caller:
    """The live-mode admin client of a new tenant."""
    return await running.caller(tenant, mode="live")


@asynccontextmanager
async def judged_by(running: Installation, caller: Caller, provider: Provider) -> AsyncIterator[Services]:
    """Let ``caller`` use a second API server of the installation, which uses ``provider``."""
    services, whole = replace(running.services, identity=provider), caller.http
    transport = httpx2.ASGITransport(app=create_app(services))
    async with httpx2.AsyncClient(transport=transport, base_url="http://api.test") as http:
        caller.http = http
        yield services
        caller.http = whole


async def fall_due(running: Installation, check: Any) -> int:
    """Make the next evaluation of ``check`` due; returns the number of scheduled evaluations, 0 or 1."""
    status = await running.services.pool.execute(
        "UPDATE kyc_checks SET evaluate_at = now() - interval '1 second'"
        " WHERE id = $1 AND evaluate_at > now()",
        check["id"],
    )
    return int(status.rpartition(" ")[2])


@pytest.mark.parametrize(
    ("changes", "state", "codes"),
    [
        ({}, "passed", []),
        ({"family_name": "FAIL"}, "failed", ["name_mismatch"]),
        ({"date_of_birth": "1990-05-18"}, "failed", ["date_of_birth_mismatch"]),
        ({"nationality": "FR"}, "in_review", ["risk_threshold"]),
        ({"document_type": "national_id"}, "pending", ["document_unreadable"]),
    ],
)
async def test_live_mode_compares_the_submitted_data(
    live: Caller, changes: dict[str, str], state: str, codes: list[str]
) -> None:
    check = await begin(live, "document", await applicant(live))
    check = await submit(live, check, BASIC | {"document_type": "passport", "document_mrz": ZONE} | changes)
    assert (check["state"], check["reason_codes"]) == (state, codes)


async def test_unreadable_document_fails_the_check_at_the_third_attempt(live: Caller) -> None:
    check = await begin(live, "document", await applicant(live))
    wrong = {**DOCUMENT, "document_mrz": ZONE, "document_type": "national_id"}
    check = await submit(live, check, BASIC | wrong)
    assert (check["state"], check["awaiting"]) == ("pending", list(DOCUMENT))
    check = await submit(live, check, wrong)
    assert check["state"] == "pending"
    check = await submit(live, check, wrong)
    assert (check["state"], check["reason_codes"]) == ("failed", ["document_unreadable", "max_attempts"])


async def test_provider_gets_one_request_with_all_submitted_data(running: Installation, live: Caller) -> None:
    provider = Provider(Verdict("passed"))
    holder = await applicant(live, date_of_birth="1990-05-17")
    async with judged_by(running, live, provider):
        check = await begin(live, "document", holder)
        await submit(live, check, PERSON)
        await submit(live, check, {"document_type": "passport", "document_mrz": ZONE})
        assert not provider.asked
        rest = {name: value for name, value in BASIC.items() if name not in PERSON}
        assert (await submit(live, check, rest))["state"] == "passed"
    (facts,) = provider.asked
    assert facts.given == BASIC | {"document_mrz": ZONE}
    assert (facts.check_id, facts.live, facts.attempts) == (check["id"], True, 0)
    assert (facts.document_type, facts.holder.family_name) == ("passport", PERSON["family_name"])
    assert str(facts.holder.date_of_birth) == "1990-05-17"


@pytest.mark.parametrize(
    "answer",
    [
        RuntimeError("row (Canarybird)"),
        TimeoutError(),
        60.0,
        Verdict("failed", ("bad_mood",)),
        Verdict("more_input", (), ()),
        Verdict("passed", (), ("selfie",)),
        Verdict("more_input", (), ("shoe_size",)),
    ],
    ids=[
        "error",
        "timeout",
        "slow",
        "unknown reason",
        "more input without inputs",
        "passed with inputs",
        "unknown input",
    ],
)
async def test_check_without_a_verdict_goes_to_review_and_is_evaluated_again(
    running: Installation,
    live: Caller,
    answer: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(advance, "KYC_EVALUATION_SECONDS", 0.05 if answer == 60.0 else 10.0)
    provider = Provider(answer)
    async with judged_by(running, live, provider) as services:
        holder = await applicant(live)
        check = await submit(live, await begin(live, "basic", holder), BASIC)
        assert (check["state"], check["reason_codes"], check["awaiting"]) == ("in_review", [], [])
        await sweep(services)
        assert provider.asked_of(check) == 1, "evaluated before it was due"
        assert await fall_due(running, check) == 1
        await sweep(services)
        assert provider.asked_of(check) == 2
        assert (await live.get(f"/v1/kyc/checks/{check['id']}"))["state"] == "in_review"
        provider.answer = Verdict("passed")
        assert await fall_due(running, check) == 1
        await sweep(services)
    assert provider.asked_of(check) == 3
    assert all(facts.given == BASIC for facts in provider.asked if facts.check_id == check["id"])
    check = await live.get(f"/v1/kyc/checks/{check['id']}")
    assert check["state"] == "passed"
    assert (await live.get(f"/v1/cardholders/{holder['id']}"))["kyc_state"] == "passed"
    assert "Canarybird" not in "".join(capsys.readouterr())


async def test_evaluation_stops_after_the_last_retry_and_waits_for_review(
    running: Installation, live: Caller
) -> None:
    provider = Provider(RuntimeError())
    async with judged_by(running, live, provider) as services:
        check = await submit(live, await begin(live), BASIC)
        for _ in range(KYC_TRIES_MAX + 2):
            await fall_due(running, check)
            await sweep(services)
        assert provider.asked_of(check) == KYC_TRIES_MAX
        path = f"/v1/kyc/checks/{check['id']}/review"
        assert (await live.post(path, {"outcome": "passed"}, 200))["state"] == "passed"


async def test_review_during_an_evaluation_prevails(running: Installation, live: Caller) -> None:
    provider = Provider(RuntimeError())
    async with judged_by(running, live, provider) as services:
        check = await submit(live, await begin(live), BASIC)
        assert await fall_due(running, check) == 1
        decided = asyncio.Event()

        async def while_it_is_evaluated(facts: CaseFacts) -> Verdict:
            await live.post(f"/v1/kyc/checks/{check['id']}/review", {"outcome": "failed"}, 200)
            decided.set()
            return Verdict("passed")

        provider.evaluate = while_it_is_evaluated  # type: ignore[method-assign]
        await sweep(services)
    assert decided.is_set()
    assert (await live.get(f"/v1/kyc/checks/{check['id']}"))["state"] == "failed"


async def test_concurrent_sweeps_evaluate_each_due_check_once(running: Installation, live: Caller) -> None:
    provider = Provider(RuntimeError())
    async with judged_by(running, live, provider) as services:
        checks = [await submit(live, await begin(live), BASIC) for _ in range(4)]
        provider.asked.clear()
        assert [await fall_due(running, check) for check in checks] == [1] * len(checks)
        await asyncio.gather(*(sweep(services) for _ in range(4)))
    assert [provider.asked_of(check) for check in checks] == [1] * len(checks)


async def test_sweep_stores_expiry_and_publishes_one_event(running: Installation, acme: Caller) -> None:
    holder = await applicant(acme)
    check = await submit(acme, await begin(acme, "basic", holder), BASIC)
    collecting = await begin(acme)
    age = "UPDATE kyc_checks SET expires_at = now() - interval '1 hour' WHERE id = ANY ($1::uuid[])"
    await running.services.pool.execute(age, [check["id"], collecting["id"]])
    assert (await acme.get(f"/v1/cardholders/{holder['id']}"))["kyc_state"] == "passed"
    await asyncio.gather(*(sweep(running.services) for _ in range(3)))
    await sweep(running.services)
    states = "SELECT state FROM kyc_checks WHERE id = ANY ($1::uuid[])"
    rows = await running.services.pool.fetch(states, [check["id"], collecting["id"]])
    assert {row["state"] for row in rows} == {"expired"}
    shown = await acme.get(f"/v1/cardholders/{holder['id']}")
    assert shown["kyc_state"] == "expired"
    events = [
        event
        for event in (await acme.get("/v1/events?limit=100"))["data"]
        if event["type"] == "cardholder.updated" and event["data"]["cardholder_id"] == holder["id"]
    ]
    assert [event["data"]["kyc_state"] for event in events] == ["expired", "passed", "pending"]
    assert events[0]["data"]["occurred_at"] == shown["updated_at"]


async def test_sweep_deletes_expired_capture_sessions(running: Installation, acme: Caller) -> None:
    check = await begin(acme, "full")
    path = f"/v1/kyc/checks/{check['id']}/capture-sessions"
    session = await acme.post(path, {"kind": "flow"})
    age = "UPDATE kyc_capture_sessions SET expires_at = now() - interval '1 hour' WHERE id = $1"
    await running.services.pool.execute(age, session["id"])
    await sweep(running.services)
    left = "SELECT count(*) FROM kyc_capture_sessions WHERE id = $1"
    assert await running.services.pool.fetchval(left, session["id"]) == 0


async def test_sweeper_survives_failed_sweeps_until_it_is_stopped(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.sweepers.kyc.KYC_SWEEP_SECONDS", 0.01)
    swept = asyncio.Semaphore(0)
    answers: list[Exception | None] = [None, OSError(), RuntimeError(), None]

    async def look(_services: Services) -> int:
        swept.release()
        answer = answers.pop(0) if answers else None
        if answer is not None:
            raise answer
        return 0

    monkeypatch.setattr("api.sweepers.kyc.sweep", look)
    sweeper = kyc_sweeper(running.services)
    sweeper.start()
    for _ in range(5):
        await asyncio.wait_for(swept.acquire(), 60)
    await sweeper.stop()
    await sweeper.stop()
    assert not answers
