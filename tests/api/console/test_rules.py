"""The pages of authorization rules: list, rule, report, states, editor."""

from __future__ import annotations

import json
import re
from typing import Any

from actors.ids import new_id
from tests.support.api.authorization_rules import RULES, rule_of
from tests.support.api.console.visitor import visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

VELOCITY = {
    "attribute": "velocity",
    "measure": "count",
    "window": "PT10M",
    "of": "card",
    "where": [{"attribute": "mcc", "op": "in", "value": ["5411", "7800-7802"]}],
    "op": "gt",
    "value": 3,
}
ROWS = {
    "name": "Fast food",
    "reason": "too_fast",
    "action": "decline",
    "state": "draft",
    "when.0.attribute": "amount",
    "when.0.op": "between",
    "when.0.value": "10.00, 50.00",
    "when.1.attribute": "velocity",
    "when.1.measure": "count",
    "when.1.window": "PT10M",
    "when.1.of": "card",
    "when.1.where.0.attribute": "mcc",
    "when.1.where.0.op": "in",
    "when.1.where.0.value": "5411, 7800-7802",
    "when.1.op": "gt",
    "when.1.value": "3",
    "when.2.attribute": "",
    "when.2.op": "eq",
    "when.2.value": "",
}
"""The editor's fields; the last row is not filled in."""
CONDITIONS = [{"attribute": "amount", "op": "between", "value": ["10.00", "50.00"]}, VELOCITY]


def field(page: str, name: str) -> str:
    """The tag of a field."""
    found = re.search(rf'<(?:input|select|textarea) id="{re.escape(name)}"[^>]*>', page)
    assert found is not None, name
    return found[0]


def value_of(page: str, name: str) -> str:
    """The value of a text field."""
    found = re.search(r' value="([^"]*)"', field(page, name))
    assert found is not None, name
    return found[1]


async def test_list_shows_rules_and_filters_them(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    rule = await acme.post(RULES, rule_of("card", card["id"], name="No <b>bets</b>"))
    programme_id = card["programme_id"]
    await acme.post(RULES, rule_of("programme", programme_id, name="Of all", state="active"))
    async with visitor(running, acme) as browser:
        page = (await browser.get("/rules")).text
        assert "No &lt;b&gt;bets&lt;/b&gt;" in page
        assert f"/console/rules/{rule['id']}" in page
        assert f'/console/programmes/{programme_id}">Everyday<' in page
        page = (await browser.get("/rules", state="active")).text
        assert ("Of all" in page, "bets" in page) == (True, False)
        page = (await browser.get("/rules", scope_type="card", scope_id=card["id"])).text
        assert ("Of all" in page, "bets" in page) == (False, True)
        refused = (await browser.get("/rules", 400, scope_id="none")).text
        assert 'value="none"' in refused
        assert 'role="alert"' in refused


async def test_rule_is_created_from_rows(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    async with visitor(running, acme) as browser:
        page = (await browser.get("/rules/new", scope=f"programme:{card['programme_id']}")).text
        assert f'<option value="programme:{card["programme_id"]}" selected>' in page
        fields = ROWS | {"scope.choice": "card", "scope.card": card["id"], "do": "save"}
        shown = (await browser.follow(await browser.post("/rules/new", fields))).text
        assert "The rule has been created." in shown
        assert "amount is between 10.00 and 50.00" in shown
        assert "number of purchases of the card within PT10M is above 3, counting where" in shown
    [rule] = (await acme.get(RULES))["data"]
    assert (rule["when"], rule["scope"]["id"], rule["state"]) == (CONDITIONS, card["id"], "draft")
    assert (rule["name"], rule["reason"], rule["action"]) == ("Fast food", "too_fast", "decline")


async def test_problem_is_shown_at_its_row(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    wrong = {"reason": "No!", "when.0.value": "50.00, 10.00", "when.1.where.0.value": "grocers", "do": "save"}
    # An empty row before the others must not move the problems to other rows.
    empty = {"when.3.attribute": "", "when.3.value": ""}
    moved = {
        name.replace("when.", "when.1"): value for name, value in (ROWS | wrong).items() if "when." in name
    }
    fields = {name: value for name, value in (ROWS | wrong).items() if "when." not in name} | empty | moved
    fields |= {"scope.choice": "card", "scope.card": card["id"]}
    async with visitor(running, acme) as browser:
        page = (await browser.post("/rules/new", fields, 400)).text
        assert "aria-invalid" in field(page, "reason")
        assert value_of(page, "reason") == "No!"
        assert "aria-invalid" in field(page, "when.0.value")
        assert 'id="when.0.value-error">The least value must not be above' in page
        assert "aria-invalid" in field(page, "when.1.where.0.value")
        assert "aria-invalid" not in field(page, "when.1.value")
        assert value_of(page, "scope.card") == card["id"]
        unknown = fields | {"scope.card": new_id(), "reason": "yes"}
        for name in ("when.10.value", "when.11.where.0.value"):
            unknown[name] = ROWS[name.replace("when.1", "when.")]
        page = (await browser.post("/rules/new", unknown, 404)).text
        assert 'id="scope-error">There is no such scope.' in page
    assert (await acme.get(RULES))["data"] == []


async def test_buttons_change_the_rows_without_saving(running: Installation, acme: Caller) -> None:
    async with visitor(running, acme) as browser:
        page = (await browser.post("/rules/new", ROWS | {"do": "add:when"}, 200)).text
        assert value_of(page, "when.3.value") == ""
        assert value_of(page, "when.0.value") == "10.00, 50.00"
        page = (await browser.post("/rules/new", ROWS | {"do": "add:when.1.where"}, 200)).text
        assert value_of(page, "when.1.where.1.value") == ""
        page = (await browser.post("/rules/new", ROWS | {"do": "remove:when.0"}, 200)).text
        assert value_of(page, "when.0.window") == "PT10M"
        assert "when.2.value" not in page
    assert (await acme.get(RULES))["data"] == []


async def test_json_is_the_second_view_of_the_same_rule(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    fields = ROWS | {"scope.choice": "card", "scope.card": card["id"]}
    async with visitor(running, acme) as browser:
        page = (await browser.post("/rules/new", fields | {"do": "json"}, 200)).text
        text = _textarea(page)
        body = json.loads(text)
        assert (body["when"], body["scope"]) == (CONDITIONS, {"type": "card", "id": card["id"]})
        page = (await browser.post("/rules/new", {"json": text, "do": "rows"}, 200)).text
        assert value_of(page, "when.1.where.0.value") == "5411, 7800-7802"
        assert value_of(page, "scope.card") == card["id"]
        # Members that the rows cannot show are not lost.
        odd = json.dumps(body | {"unknown": 1})
        page = (await browser.post("/rules/new", {"json": odd, "do": "rows"}, 200)).text
        assert json.loads(_textarea(page))["unknown"] == 1
        page = (await browser.post("/rules/new", {"json": odd, "do": "save"}, 400)).text
        assert "<li>unknown: There is no such member.</li>" in page
        page = (await browser.post("/rules/new", {"json": "{", "do": "save"}, 200)).text
        assert "not JSON at line 1" in page
        await browser.post("/rules/new", {"json": text, "do": "save"})
    assert [each["when"] for each in (await acme.get(RULES))["data"]] == [CONDITIONS]


def _textarea(page: str) -> str:
    found = re.search(r'<textarea id="json"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    assert found is not None
    return found[1].replace("&#34;", '"').replace("&lt;", "<").replace("&amp;", "&")


async def test_edit_makes_a_version_once(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    rule = await acme.post(RULES, rule_of("card", card["id"], when=[VELOCITY]))
    path = f"/rules/{rule['id']}"
    async with visitor(running, acme) as browser:
        page = (await browser.get(f"{path}/edit")).text
        assert value_of(page, "when.0.window") == "PT10M"
        assert value_of(page, "when.0.where.0.value") == "5411, 7800-7802"
        fields = ROWS | {"do": "save", "key": "one-key"}
        shown = await browser.follow(await browser.post(f"{path}/edit", fields))
        assert "Version 2 is saved." in shown.text
        await browser.post(f"{path}/edit", fields)
        again = await browser.follow(await browser.post(f"{path}/edit", fields | {"key": "another"}))
        assert "The rule has not changed." in again.text
        assert "Back-test this version" in again.text
    changed = await acme.get(f"{RULES}/{rule['id']}")
    assert (changed["version"], changed["when"], changed["state"]) == (2, CONDITIONS, "draft")
    acts = (await acme.get(f"/v1/audit-log?object_id={rule['id']}"))["data"]
    assert [each["act"] for each in acts].count("update_authorization_rule") == 1


async def test_state_changes_from_the_page_of_the_rule(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    rule = await acme.post(RULES, rule_of("card", card["id"]))
    path = f"/rules/{rule['id']}"
    async with visitor(running, acme) as browser:
        page = (await browser.get(path)).text
        assert [f'id="to-{state}"' in page for state in ("shadow", "active", "retired")] == [True] * 3
        for state, badge in (("shadow", "shadow"), ("active", "active")):
            shown = (await browser.follow(await browser.post(path, {"state": state}))).text
            assert f'<span class="badge {"warn" if badge == "shadow" else "good"}">{badge}</span>' in shown
        assert 'id="to-active"' not in shown
        await acme.spend(card, "1.00", mcc="7995")
        await browser.post(path, {"state": "retired"})
        page = (await browser.post(path, {"state": "active"}, 409)).text
        assert "A retired rule cannot be changed." in page
        assert "/edit" not in page
        assert (await browser.post(path, {"state": "unknown"}, 200)).text.count("to-retired") == 0
    assert (await acme.get(f"{RULES}/{rule['id']}"))["state"] == "retired"


async def test_report_shows_matches_with_a_chart(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    rule = await acme.post(RULES, rule_of("card", card["id"], state="shadow"))
    spend = await acme.spend(card, "7.00", mcc="7995")
    async with visitor(running, acme) as browser:
        page = (await browser.get(f"/rules/{rule['id']}", days="7")).text
        assert "<strong>1</strong><span>matched, 7.00 EUR</span>" in page
        assert re.search(r'<rect class="approved"[^>]*><title>[0-9-]{10}: 1 approved', page)
        assert f"/console/transactions/{spend['transaction_id']}" in page
        assert "<td>7995</td>" in page
        draft = await acme.post(RULES, rule_of("card", card["id"]))
        assert "A draft is not evaluated" in (await browser.get(f"/rules/{draft['id']}")).text


async def test_pages_follow_permissions_and_tenants(running: Installation, acme: Caller, tenant: str) -> None:
    card = await acme.funded_card()
    rule = await acme.post(RULES, rule_of("card", card["id"]))
    path = f"/rules/{rule['id']}"
    reader = await running.caller(tenant, scopes=("rules:read",))
    async with visitor(running, reader) as browser:
        page = (await browser.get(path)).text
        assert "<dialog" not in page
        assert "/edit" not in page
        assert "New rule" not in (await browser.get("/rules")).text
        await browser.get("/rules/new", 403)
        for target, fields in ((path, {"state": "active"}), (f"{path}/edit", ROWS), ("/rules/new", ROWS)):
            await browser.post(target, fields, 403)
    assert (await acme.get(f"{RULES}/{rule['id']}"))["state"] == "draft"
    stranger = await running.caller(f"{tenant}-other")
    async with visitor(running, stranger) as browser:
        assert "No rules." in (await browser.get("/rules")).text
        await browser.get(path, 404)
        await browser.get("/rules/none", 404)
        await browser.post(path, {"state": "active"}, 404)
        await browser.post(f"{path}/edit", ROWS | {"do": "save"}, 404)
    nobody = await running.caller(f"{tenant}-third", scopes=("cards:read",))
    async with visitor(running, nobody) as browser:
        assert "/console/rules" not in (await browser.get()).text
        await browser.get("/rules", 403)


async def test_more_rows_than_a_rule_has_are_refused(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    rows: dict[str, Any] = {f"when.{place}.attribute": "mit" for place in range(40)}
    rows |= {
        f"when.{place}.{part}": text
        for place in range(40)
        for part, text in (("op", "eq"), ("value", "true"))
    }
    fields = {
        "name": "x",
        "reason": "too_long",
        "scope.choice": "card",
        "scope.card": card["id"],
        "do": "save",
    }
    async with visitor(running, acme) as browser:
        page = (await browser.post("/rules/new", fields | rows, 400)).text
        assert 'id="when-error"' in page
    assert (await acme.get(RULES))["data"] == []
