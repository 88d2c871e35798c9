"""The pages of back-tests: form, progress, result, flips with both traces, download."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest_asyncio

from tests.support.api.authorization_rules import GAMBLING, RULES, rule_of
from tests.support.api.backtests import lead_next
from tests.support.api.console.visitor import Visitor, visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

NEW_RULE = {
    "change.add_rules.0.version": "",
    "change.add_rules.0.name": "No bets",
    "change.add_rules.0.reason": "no_bets",
    "change.add_rules.0.action": "decline",
    "change.add_rules.0.when.0.attribute": "mcc",
    "change.add_rules.0.when.0.op": "in",
    "change.add_rules.0.when.0.value": "7995, 7800-7802",
}
CONTROLS = {
    "change.controls.remove[]": ["per_txn_cap", "per_day_cap"],
    "change.controls.add.0.kind": "country_deny",
    "change.controls.add.0.value": "ru",
    "change.controls.add.1.kind": "",
    "change.controls.add.1.value": "",
}


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def _no_open_backtests(running: Installation) -> Any:
    """Back-tests of other tests do not wait in this test's queue."""
    await running.services.pool.execute("DELETE FROM backtests")


def form(card: Any, **fields: Any) -> dict[str, Any]:
    """The form for a card's programme: from yesterday to tomorrow."""
    today = datetime.now(UTC).date()
    return {
        "scope.choice": f"programme:{card['programme_id']}",
        "scope.card": "",
        "first_day": (today - timedelta(days=1)).isoformat(),
        "last_day": (today + timedelta(days=1)).isoformat(),
        "assume_presented": "true",
        "do": "create",
        **fields,
    }


async def created(browser: Visitor, fields: dict[str, Any]) -> str:
    """The path of a new back-test below the console."""
    answer = await browser.post("/backtests/new", fields)
    return answer.headers["location"].removeprefix("/console")


async def test_backtest_of_a_new_rule_from_the_form_to_its_flips(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    bet = await acme.spend(card, "80.00", mcc="7995")
    food = await acme.spend(card, "50.00")
    async with visitor(running, acme) as browser:
        path = await created(browser, form(card) | NEW_RULE)
        page = (await browser.get(path)).text
        assert 'hx-trigger="every 1s"' in page
        assert "Waiting for a free worker." in page
        assert "merchant category (MCC) is one of 7995, 7800-7802" in page
        assert (await browser.http.get(f"/console{path}/flips")).text.count(
            "The back-test has not ended."
        ) == 1
        await lead_next(running)
        fragment = await browser.http.get(f"/console{path}", headers={"HX-Request": "true"})
        assert fragment.text.lstrip().startswith('<div id="progress">')
        assert "hx-get" not in fragment.text
        page = (await browser.get(path)).text
        assert "approved before, now declined: 80.00 EUR" in page
        assert "declined before, now approved: 50.00 EUR" in page
        assert "2</strong><span>recorded decisions, all reproduced" in page
        assert re.search(
            r'<rect class="approved_to_declined"[^>]*><title>[0-9-]{10}: 1 approved to declined', page
        )
        assert "No bets (new)" in page
        flips = (await browser.get(f"{path}/flips")).text
        assert flips.count('<details class="flip">') == 2
        one = (await browser.get(f"{path}/flips", direction="approved_to_declined")).text
        assert one.count('<details class="flip">') == 1
        assert f"/console/transactions/{bet['transaction_id']}" in one
        assert food["transaction_id"] not in one
        assert "not evaluated" in one
        assert '<tr class="differs"><th scope="row">No bets (new)' in one
        answer = await browser.get(f"{path}/flips.csv")
        assert answer.headers["content-disposition"].startswith("attachment;")
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert [row["id"] for row in rows] == [food["transaction_id"], bet["transaction_id"]]
        assert "No bets" not in (await browser.get("/backtests")).text
        assert path in (await browser.get("/backtests")).text
    [made] = (await acme.get("/v1/backtests"))["data"]
    when = [GAMBLING]
    rule = {"name": "No bets", "reason": "no_bets", "action": "decline", "when": when}
    assert (made["change"], made["assume_presented"]) == ({"add_rules": [rule]}, True)


async def test_change_of_controls_and_existing_rules(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    active = await acme.post(RULES, rule_of("card", card["id"], name="Old", state="active"))
    draft = await acme.post(RULES, rule_of("card", card["id"], name="Fresh"))
    scope, version = f"card:{card['id']}", f"{draft['id']}@1"
    async with visitor(running, acme) as browser:
        page = (
            await browser.get("/backtests/new", scope=scope, add=version, remove=active["id"], days="7")
        ).text
        assert f'<option value="{version}" selected>Fresh, version 1 (draft)' in page
        assert re.search(rf'value="{active["id"]}" checked', page)
        assert f'name="scope.card" type="text" value="{card["id"]}"' in page
        fields = form(card) | CONTROLS | {"scope.choice": "card", "scope.card": card["id"]}
        fields |= {"change.add_rules.0.version": version, "change.remove_rules[]": [active["id"]]}
        fields |= {"assume_presented": "false"}
        page = (await browser.post("/backtests/new", fields | {"do": "json"}, 200)).text
        text = re.search(r'<textarea id="json"[^>]*>(.*?)</textarea>', page, re.DOTALL)
        assert text is not None
        change = json.loads(text[1].replace("&#34;", '"'))
        assert change == {
            "controls": {
                "remove": ["per_txn_cap", "per_day_cap"],
                "add": [{"kind": "country_deny", "values": ["RU"]}],
            },
            "add_rules": [version],
            "remove_rules": [active["id"]],
        }
        days = {name: fields[name] for name in ("first_day", "last_day", "scope.choice", "scope.card")}
        as_json = days | {"json": json.dumps(change), "assume_presented": "false"}
        page = (await browser.post("/backtests/new", as_json | {"do": "rows"}, 200)).text
        assert f'<option value="{version}" selected>' in page
        path = await created(browser, as_json | {"do": "create"})
        page = (await browser.get(path)).text
        assert "Fresh</a>, version 1" in page
        assert 'Removes <a href="/console/rules/' in page
        assert "none of these merchant countries: RU" in page
        again = (await browser.get("/backtests/new", again=path.rpartition("/")[2])).text
        assert f'<option value="{version}" selected>' in again
        assert re.search(r'value="per_txn_cap" checked', again)
        for name in ("first_day", "last_day"):
            assert f'name="{name}" type="date" value="{fields[name]}"' in again
        assert '<option value="false" selected>' in again
    [made] = (await acme.get("/v1/backtests"))["data"]
    assert (made["change"], made["assume_presented"]) == (change, False)
    assert made["scope"] == {"type": "card", "id": card["id"]}
    assert (made["from"][11:], made["to"][11:]) == ("00:00:00.000Z", "00:00:00.000Z")


async def test_problems_are_shown_at_their_fields(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    async with visitor(running, acme) as browser:
        page = (await browser.post("/backtests/new", form(card), 400)).text
        assert 'id="change-error">The change must name controls or rules.' in page
        broken = NEW_RULE | {
            "change.add_rules.0.when.0.value": "bets",
            "change.controls.add.0.kind": "per_day_cap",
        }
        broken |= {"change.controls.add.0.value": "many"}
        page = (await browser.post("/backtests/new", form(card) | broken, 400)).text
        assert 'id="change.add_rules.0.when.0.value-error"' in page
        assert 'id="change.controls.add.0-error"' in page
        days = {"first_day": "2026-01-01", "last_day": "2026-12-31"}
        page = (await browser.post("/backtests/new", form(card) | NEW_RULE | days, 400)).text
        assert 'id="to-error">The window may hold at most 92 days.' in page
        page = (await browser.post("/backtests/new", form(card) | NEW_RULE | {"first_day": "soon"}, 400)).text
        assert 'id="from-error"' in page
        page = (await browser.post("/backtests/new", form(card) | {"json": "["}, 200)).text
        assert "not JSON" in page
    assert (await acme.get("/v1/backtests"))["data"] == []


async def test_buttons_change_the_rows_of_rules_and_controls(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    async with visitor(running, acme) as browser:
        fields = form(card) | NEW_RULE | CONTROLS
        page = (await browser.post("/backtests/new", fields | {"do": "add:change.add_rules"}, 200)).text
        assert 'name="change.add_rules.1.when.0.value"' in page
        assert 'value="7995, 7800-7802"' in page
        assert re.search(r'value="per_txn_cap" checked', page)
        act = "add:change.add_rules.0.when"
        page = (await browser.post("/backtests/new", fields | {"do": act}, 200)).text
        assert 'name="change.add_rules.0.when.1.value"' in page
        act = "remove:change.controls.add.0"
        page = (await browser.post("/backtests/new", fields | {"do": act}, 200)).text
        assert 'value="ru"' not in page


async def test_backtest_is_cancelled_from_its_page(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    async with visitor(running, acme) as browser:
        path = await created(browser, form(card) | NEW_RULE)
        assert 'id="cancel"' in (await browser.get(path)).text
        page = (await browser.follow(await browser.post(path))).text
        assert "The back-test is cancelled." in page
        assert 'id="cancel"' not in page
        assert "hx-get" not in page.split('id="progress"')[1]
    acts = (await acme.get(f"/v1/audit-log?object_id={path.rpartition('/')[2]}"))["data"]
    assert [each["act"] for each in acts] == ["cancel_backtest", "create_backtest"]


async def test_failed_backtest_says_why(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    async with visitor(running, acme) as browser:
        path = await created(browser, form(card) | NEW_RULE)
        await running.services.pool.execute(
            "UPDATE backtests SET state = 'failed', failure = 'too_slow', completed_at = now()"
        )
        page = (await browser.get(path)).text
        assert "Choose a smaller scope." in page
        assert "cannot be cancelled" in (await browser.post(path, None, 409)).text


async def test_pages_follow_permissions_and_tenants(running: Installation, acme: Caller, tenant: str) -> None:
    card = await acme.funded_card()
    async with visitor(running, acme) as browser:
        path = await created(browser, form(card) | NEW_RULE)
    reader = await running.caller(tenant, scopes=("rules:read",))
    async with visitor(running, reader) as browser:
        assert "<dialog" not in (await browser.get(path)).text
        assert "New back-test" not in (await browser.get("/backtests")).text
        await browser.get("/backtests/new", 403)
        await browser.post("/backtests/new", form(card) | NEW_RULE, 403)
        await browser.post(path, None, 403)
    stranger = await running.caller(f"{tenant}-other")
    async with visitor(running, stranger) as browser:
        assert "No back-tests." in (await browser.get("/backtests")).text
        for each in (path, f"{path}/flips", f"{path}/flips.csv"):
            await browser.get(each, 404)
        for again in (path.rpartition("/")[2], "../programs", ""):
            await browser.get("/backtests/new", 404, again=again)
        await browser.post(path, None, 404)
        await browser.post("/backtests/new", form(card) | NEW_RULE, 404)
    [made] = (await acme.get("/v1/backtests"))["data"]
    assert made["state"] == "queued"
