"""The console's queue of identity checks, and a reviewer's decision."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api.console.visitor import visitor
from tests.support.api.driver import Caller
from tests.support.api.kyc.applicants import BASIC, submit
from tests.support.api.stack import Installation


async def check_in_review(acme: Caller) -> Any:
    """A new check that waits for a reviewer."""
    holder = await acme.cardholder(await acme.programme(), given_name="Joan", family_name="<Clarke>")
    check = await acme.post("/v1/kyc/checks", {"cardholder_id": holder["id"], "flow_key": "basic"})
    await submit(acme, check, BASIC | {"family_name": "REVIEW"})
    return check


@pytest.mark.parametrize(
    ("form", "state"),
    [
        ({"outcome": "passed"}, "passed"),
        ({"outcome": "failed", "reason_codes": ["name_mismatch", "risk_threshold"]}, "failed"),
        ({"outcome": "more_input", "awaiting": ["given_name", "family_name"]}, "pending"),
    ],
)
async def test_reviewer_decides_on_a_check(
    running: Installation, acme: Caller, form: dict[str, Any], state: str
) -> None:
    check = await check_in_review(acme)
    async with visitor(running, acme) as browser:
        assert f'href="/console/kyc/{check["id"]}"' in (await browser.get("/kyc")).text
        page = (await browser.get(f"/kyc/{check['id']}")).text
        assert "Joan &lt;Clarke&gt;" in page
        for value in BASIC.values():
            assert len(value) <= len("IE") or value not in page
        decided = await browser.follow(await browser.post(f"/kyc/{check['id']}/review", form))
        assert f"The check is {state}." in decided.text
        assert 'name="outcome"' not in decided.text
        assert check["id"] not in (await browser.get("/kyc")).text.partition("<main")[2]
        assert check["id"] in (await browser.get("/kyc", state=state)).text
    found = await acme.get(f"/v1/kyc/checks/{check['id']}")
    assert found["state"] == state
    assert set(form.get("reason_codes", [])) <= set(found["reason_codes"])
    assert found["awaiting"] == form.get("awaiting", [])


async def test_contradicting_review_is_refused_and_the_form_keeps_its_values(
    running: Installation, acme: Caller
) -> None:
    check = await check_in_review(acme)
    async with visitor(running, acme) as browser:
        form = {"outcome": "more_input", "reason_codes": ["name_mismatch"]}
        refused = (await browser.post(f"/kyc/{check['id']}/review", form, 400)).text
        assert 'id="awaiting-error"' in refused
        assert 'value="more_input" required checked' in refused
        assert 'value="name_mismatch" checked' in refused
        await browser.post(f"/kyc/{check['id']}/review", {}, 400)
        await browser.post(f"/kyc/{check['id']}/review", {"outcome": "passed"})
        # A second reviewer is too late.
        late = (await browser.post(f"/kyc/{check['id']}/review", {"outcome": "failed"}, 409)).text
        assert "The check is passed now." in late


async def test_user_sees_a_check_and_cannot_decide(running: Installation, acme: Caller, tenant: str) -> None:
    check = await check_in_review(acme)
    user = await running.caller(acme.credentials.name, role="user")
    async with visitor(running, user) as browser:
        page = (await browser.get(f"/kyc/{check['id']}")).text
        assert "A reviewer with the role admin decides." in page
        assert 'name="outcome"' not in page
        await browser.post(f"/kyc/{check['id']}/review", {"outcome": "passed"}, 403)
    assert (await acme.get(f"/v1/kyc/checks/{check['id']}"))["state"] == "in_review"
    rival = await running.caller(f"{tenant}-rival")
    async with visitor(running, rival) as browser:
        await browser.get(f"/kyc/{check['id']}", 404)
        await browser.post(f"/kyc/{check['id']}/review", {"outcome": "passed"}, 404)
        assert check["id"] not in (await browser.get("/kyc", cardholder_id=check["cardholder_id"])).text
