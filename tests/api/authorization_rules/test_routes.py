"""Authorization rules over the API: created, versioned, moved between states, listed, and in force."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.ids import new_id
from engine.limits import RULES_ACTIVE_MAX, RULES_SHADOW_MAX
from tests.support.api.authorization_rules import ABOVE_FIFTY, GAMBLING, RULES, rule_of
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


async def rule_in(caller: Caller, card: Any, state: str, **members: Any) -> Any:
    """A new rule of ``card`` in ``state``, also in the state retired."""
    first = "draft" if state == "retired" else state
    made = await caller.post(RULES, rule_of("card", card["id"], state=first, **members))
    return await caller.post(f"{RULES}/{made['id']}/retire", None, 200) if state == "retired" else made


def scopes_of(card: Any) -> list[tuple[str, str]]:
    return [
        ("programme", card["programme_id"]),
        ("card_product", card["card_product_id"]),
        ("card", card["id"]),
    ]


@pytest.mark.parametrize("mode", ["test", "live"])
async def test_rule_is_created_as_a_draft_in_both_modes(
    running: Installation, tenant: str, mode: str
) -> None:
    caller = await running.caller(tenant, mode=mode)
    programme = await caller.programme()
    card = await caller.card(await caller.product(programme), await caller.cardholder(programme))
    for type_, id_ in scopes_of(card):
        body = rule_of(type_, id_)
        made = await caller.post(RULES, body)
        assert made == body | {
            "id": made["id"],
            "version": 1,
            "action": "decline",
            "state": "draft",
            "created_at": made["created_at"],
            "updated_at": made["created_at"],
        }
        assert await caller.get(f"{RULES}/{made['id']}") == made
        event = (await caller.get("/v1/events?types=authorization_rule.created&limit=1"))["data"][0]
        assert event["data"] == {
            "rule_id": made["id"],
            "version": 1,
            "state": "draft",
            "scope": body["scope"],
            "occurred_at": made["created_at"],
        }


async def test_repeated_creation_makes_one_rule(acme: Caller) -> None:
    card = await acme.funded_card()
    for type_, id_ in scopes_of(card):
        body = rule_of(type_, id_)
        sent = [acme.send("POST", RULES, body, key=f"rule-{type_}") for _ in range(4)]
        answers = await asyncio.gather(*sent)
        assert len({answer.content for answer in answers if answer.status_code == 201}) == 1
        assert {answer.status_code for answer in answers} <= {201, 409}
        listed = await acme.get(f"{RULES}?scope_id={id_}")
        assert len(listed["data"]) == 1


@pytest.mark.parametrize("type_", ["programme", "card_product", "card"])
async def test_scopes_of_others_do_not_exist(
    running: Installation, acme: Caller, tenant: str, type_: str
) -> None:
    card = await acme.funded_card()
    ids = dict(scopes_of(card))
    rival = await running.caller(f"{tenant}-rival")
    live = await running.caller(acme.credentials.name, mode="live")
    unknown = await acme.post(RULES, rule_of(type_, new_id()), 404)
    assert [(error["pointer"], error["code"]) for error in unknown["errors"]] == [("/scope/id", "not_found")]
    for other in (rival, live):
        problem = await other.post(RULES, rule_of(type_, ids[type_]), 404)
        assert problem | {"instance": ""} == unknown | {"instance": ""}
    other_type = "card" if type_ != "card" else "programme"
    await acme.post(RULES, rule_of(other_type, ids[type_]), 404)
    assert (await acme.get(RULES))["data"] == []


async def test_invalid_body_names_its_members_and_creates_nothing(acme: Caller) -> None:
    card = await acme.funded_card()
    wrong = [{"attribute": "iban", "op": "eq", "value": "x"}, ABOVE_FIFTY | {"value": 50}]
    problem = await acme.post(RULES, rule_of("card", card["id"], when=wrong, reason="No!"), 400)
    assert problem["type"] == "/problems/validation-failed"
    assert {(error["pointer"], error["code"]) for error in problem["errors"]} == {
        ("/when/0/attribute", "not_allowed"),
        ("/when/1/value", "type"),
        ("/reason", "format"),
    }
    assert (await acme.get(RULES))["data"] == []


async def test_change_of_content_makes_a_version(acme: Caller) -> None:
    card = await acme.funded_card()
    made = await rule_in(acme, card, "shadow")
    path = f"{RULES}/{made['id']}"
    second = await acme.patch(path, {"when": [GAMBLING, ABOVE_FIFTY], "reason": "high_stakes"})
    assert second == made | {
        "version": 2,
        "when": [GAMBLING, ABOVE_FIFTY],
        "reason": "high_stakes",
        "updated_at": second["updated_at"],
    }
    assert await acme.patch(path, {"reason": "high_stakes"}) == second
    third = await acme.patch(path, {"name": "Stakes", "action": "require_authentication"})
    assert (third["version"], third["state"]) == (3, "shadow")
    assert await acme.get(path) == third
    versions = (await acme.get(f"{path}/versions"))["data"]
    members = ("version", "name", "when", "action", "reason")
    assert [{name: each[name] for name in members} for each in versions] == [
        {name: each[name] for name in members} for each in (third, second, made)
    ]
    assert versions[-1]["created_at"] == made["created_at"]
    events = (await acme.get("/v1/events?types=authorization_rule.updated"))["data"]
    assert [event["data"]["version"] for event in events] == [3, 2]


@pytest.mark.parametrize("type_", ["programme", "card"])
async def test_repeated_change_makes_one_version(acme: Caller, type_: str) -> None:
    card = await acme.funded_card()
    made = await acme.post(RULES, rule_of(type_, dict(scopes_of(card))[type_]))
    path, body = f"{RULES}/{made['id']}", {"reason": "other_reason"}
    first, again = [await acme.send("PATCH", path, body, key="change") for _ in range(2)]
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.content == again.content
    assert again.headers["Idempotent-Replayed"] == "true"
    await acme.patch(path, {"reason": "third_reason"})
    assert (await acme.send("PATCH", path, body, key="change")).content == first.content
    assert (await acme.get(path))["version"] == 3
    states = [await acme.send("POST", f"{path}/activate", key="activate") for _ in range(2)]
    assert states[0].content == states[1].content


async def test_rules_and_their_versions_survive_a_change_of_owner(
    running: Installation, acme: Caller
) -> None:
    card = await acme.funded_card()
    rules = [
        await acme.post(RULES, rule_of(type_, id_, state="active", reason=f"of_{type_}"))
        for type_, id_ in scopes_of(card)
    ]
    await running.replace_host()
    for rule in rules:
        assert (await acme.spend(card, "1.00", mcc="7995"))["decline_detail"] == rule["reason"]
        changed = await acme.patch(f"{RULES}/{rule['id']}", {"name": "Renamed"})
        assert changed["version"] == 2
        await acme.post(f"{RULES}/{rule['id']}/retire", None, 200)
    assert (await acme.spend(card, "1.00", mcc="7995"))["decision"] == "approved"


async def test_versions_come_in_pages(acme: Caller) -> None:
    card = await acme.funded_card()
    made = await rule_in(acme, card, "draft")
    path = f"{RULES}/{made['id']}"
    for number in range(2, 6):
        await acme.patch(path, {"name": f"Name {number}"})
    found, query = [], "limit=2"
    while True:
        page = await acme.get(f"{path}/versions?{query}")
        found += [each["version"] for each in page["data"]]
        if not page["has_more"]:
            break
        query = f"limit=2&starting_after={page['next_cursor']}"
    assert (found, page["next_cursor"]) == ([5, 4, 3, 2, 1], None)
    for wrong in ("starting_after=0", "starting_after=x", f"starting_after={made['id']}", "limit=101"):
        assert (await acme.send("GET", f"{path}/versions?{wrong}")).status_code == 400


@pytest.mark.parametrize(
    ("change", "pointer", "code"),
    [
        ({}, "", "missing"),
        ({"when": []}, "/when", "length"),
        ({"when": None}, "/when", "type"),
        ({"name": None}, "/name", "type"),
        ({"state": "active"}, "/state", "unknown_field"),
        ({"scope": {"type": "card", "id": "x"}}, "/scope", "unknown_field"),
    ],
)
async def test_invalid_change_names_its_member(
    acme: Caller, change: dict[str, Any], pointer: str, code: str
) -> None:
    problem = await acme.patch(f"{RULES}/{new_id()}", change, 400)
    assert [(error["pointer"], error["code"]) for error in problem["errors"]] == [(pointer, code)]


@pytest.mark.parametrize(
    ("state", "allowed"),
    [
        ("draft", {"shadow", "activate", "retire"}),
        ("shadow", {"shadow", "activate", "retire"}),
        ("active", {"shadow", "activate", "retire"}),
        ("retired", {"retire"}),
    ],
)
async def test_states_change_along_their_transitions(acme: Caller, state: str, allowed: set[str]) -> None:
    card = await acme.funded_card()
    become = {"shadow": "shadow", "activate": "active", "retire": "retired"}
    for operation, after in become.items():
        rule = await rule_in(acme, card, state)
        path = f"{RULES}/{rule['id']}"
        if operation in allowed:
            changed = await acme.post(f"{path}/{operation}", None, 200)
            updated = {} if state == after else {"updated_at": changed["updated_at"]}
            assert changed == rule | {"state": after} | updated
        else:
            problem = await acme.post(f"{path}/{operation}", None, 409)
            assert problem["type"] == "/problems/invalid-state-transition"
        assert (await acme.get(path))["state"] == (after if operation in allowed else state)
    problem = await acme.patch(path, {"name": "Other"}, 409)
    assert problem["type"] == "/problems/invalid-state-transition"


async def test_concurrent_retirements_retire_once(acme: Caller) -> None:
    card = await acme.funded_card()
    rule = await rule_in(acme, card, "active")
    path = f"{RULES}/{rule['id']}/retire"
    answers = await asyncio.gather(*(acme.send("POST", path) for _ in range(6)))
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["state"] for answer in answers} == {"retired"}
    events = (await acme.get("/v1/events?types=authorization_rule.updated"))["data"]
    assert [event["data"]["state"] for event in events] == ["retired"]


@pytest.mark.parametrize(
    ("state", "limit", "operation"),
    [("shadow", RULES_SHADOW_MAX, "shadow"), ("active", RULES_ACTIVE_MAX, "activate")],
)
async def test_scope_has_a_limited_number_of_rules(
    acme: Caller, state: str, limit: int, operation: str
) -> None:
    card = await acme.funded_card()
    product = rule_of("card_product", card["card_product_id"])
    draft = await acme.post(RULES, product)
    bodies = [product | {"state": state}] * (limit + 2)
    made = await asyncio.gather(*(acme.send("POST", RULES, body) for body in bodies))
    assert sorted(answer.status_code for answer in made) == [*[201] * limit, 409, 409]
    refused = [answer.json()["type"] for answer in made if answer.status_code == 409]
    problem = await acme.post(f"{RULES}/{draft['id']}/{operation}", None, 409)
    assert {*refused, problem["type"]} == {"/problems/too-many-rules"}
    # Other scopes have limits of their own.
    await acme.post(RULES, rule_of("programme", card["programme_id"], state=state))
    listed = await acme.get(f"{RULES}?state={state}&scope_type=card_product&limit=100")
    await acme.post(f"{RULES}/{listed['data'][0]['id']}/retire", None, 200)
    await acme.post(f"{RULES}/{draft['id']}/{operation}", None, 200)


async def test_list_is_filtered_by_every_parameter(acme: Caller) -> None:
    card = await acme.funded_card()
    made = {
        (type_, state): (await acme.post(RULES, rule_of(type_, id_, state=state)))["id"]
        for state in ("draft", "active")
        for type_, id_ in scopes_of(card)
    }
    newest_first = list(made)[::-1]

    async def listed(query: str) -> list[tuple[str, str]]:
        page = await acme.get(f"{RULES}?{query}")
        names = {id_: name for name, id_ in made.items()}
        return [names[row["id"]] for row in page["data"]]

    assert await listed("") == newest_first
    assert await listed("state=active") == newest_first[:3]
    assert await listed("scope_type=card") == [("card", "active"), ("card", "draft")]
    assert await listed(f"scope_id={card['id']}&state=draft") == [("card", "draft")]
    assert await listed(f"scope_type=card&scope_id={card['programme_id']}") == []
    assert await listed(f"limit=1&starting_after={made[newest_first[0]]}") == newest_first[1:2]
    assert (await acme.send("GET", f"{RULES}?state=live")).status_code == 400


@pytest.mark.parametrize("type_", ["programme", "card_product", "card"])
async def test_active_rule_declines_from_its_answer_to_its_retirement(acme: Caller, type_: str) -> None:
    card = await acme.funded_card()
    rule = await acme.post(RULES, rule_of(type_, dict(scopes_of(card))[type_]))
    path = f"{RULES}/{rule['id']}"

    async def outcome() -> tuple[Any, Any, Any]:
        spend = await acme.spend(card, "1.00", mcc="7995")
        return spend["decision"], spend["decline_reason"], spend["decline_detail"]

    approved = ("approved", None, None)
    declined = ("declined", "rule_declined", "no_gambling")
    assert await outcome() == approved
    await acme.post(f"{path}/shadow", None, 200)
    assert await outcome() == approved
    await acme.post(f"{path}/activate", None, 200)
    assert await outcome() == declined
    await acme.patch(path, {"reason": "not_here"})
    assert await outcome() == (*declined[:2], "not_here")
    await acme.post(f"{path}/shadow", None, 200)
    assert await outcome() == approved
    await acme.post(f"{path}/activate", None, 200)
    await acme.post(f"{path}/retire", None, 200)
    assert await outcome() == approved


async def test_decision_of_a_rule_is_explained(acme: Caller) -> None:
    card = await acme.funded_card()
    rule = await acme.post(RULES, rule_of("card", card["id"], state="active"))
    spend = await acme.spend(card, "1.00", mcc="7801", merchant_id="SHOP 7")
    assert (spend["response_code"], spend["merchant_id"]) == ("05", "SHOP 7")
    path = f"/v1/transactions/{spend['transaction_id']}"
    transaction = await acme.get(path)
    assert transaction["decline_reason"] == "rule_declined"
    assert transaction["decline_detail"] == "no_gambling"
    assert transaction["merchant"] == {"id": "SHOP 7", "name": "Corner Shop", "country": "IE"}
    steps = [step for step in transaction["trace"] if rule["id"] in step["rule"]]
    assert [(step["outcome"], step["observed"]) for step in steps] == [("fail", "7801")]
    event = (await acme.get("/v1/events?types=authorization.decided&limit=1"))["data"][0]
    assert (event["data"]["decline_reason"], event["data"]["decline_detail"]) == (
        "rule_declined",
        "no_gambling",
    )
    # Later versions do not change the replay of earlier decisions.
    await acme.patch(f"{RULES}/{rule['id']}", {"when": [ABOVE_FIFTY]})
    replayed = await acme.post(f"{path}/replay", None, 200)
    assert replayed["identical"]
    assert replayed["recomputed"]["decline_detail"] == "no_gambling"
    declined = (await acme.get("/v1/transactions?decline_reason=rule_declined"))["data"]
    assert [row["id"] for row in declined] == [spend["transaction_id"]]


async def test_rule_that_requires_authentication_spares_authenticated_and_initiated_purchases(
    acme: Caller,
) -> None:
    card = await acme.funded_card()
    body = rule_of("card", card["id"], when=[ABOVE_FIFTY], action="require_authentication", state="active")
    await acme.post(RULES, body)
    online = {"channel": "ecommerce"}
    refused = await acme.spend(card, "50.01", **online)
    assert (refused["decline_reason"], refused["response_code"]) == ("authentication_required", "1A")
    assert refused["decline_detail"] == "no_gambling"
    proof = {"auth_value": "AAABBEg0VhI0VniQEjRWAAAAAAA=", "threeds_ref": new_id()}
    for spared in (proof | online, {"mit": True} | online, {"channel": "pos"}):
        spend = await acme.spend(card, "50.01", **spared)
        assert spend["decline_reason"] in {None, "insufficient_funds"}, spared


async def test_increment_that_a_rule_declines_shows_its_detail(acme: Caller) -> None:
    card = await acme.funded_card()
    await acme.post(RULES, rule_of("card", card["id"], when=[ABOVE_FIFTY], state="active"))
    spend = await acme.spend(card, "40.00")
    body = {"raise_by_amount": {"amount": "20.00", "currency": "EUR"}}
    raised = await acme.post(f"/v1/simulated-spends/{spend['simulation_id']}/increment", body, 202)
    record = await acme.simulation(raised["simulation_id"])
    assert (record["decline_reason"], record["decline_detail"]) == ("rule_declined", "no_gambling")


async def test_act_names_the_rule_with_its_difference(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    for type_, id_ in scopes_of(card):
        made = await acme.post(RULES, rule_of(type_, id_))
        await acme.post(f"{RULES}/{made['id']}/activate", None, 200)
        await acme.post(f"{RULES}/{made['id']}/activate", None, 200)
        entries = (await acme.get(f"/v1/audit-log?object_id={made['id']}"))["data"]
        assert [(entry["act"], entry["object"]["kind"]) for entry in entries] == [
            ("activate_authorization_rule", "authorization_rule"),
            ("create_authorization_rule", "authorization_rule"),
        ]
        assert (entries[0]["before"], entries[0]["after"]) == ({"state": "draft"}, {"state": "active"})
        assert entries[1]["before"] is None
        assert entries[1]["after"]["reason"] == "no_gambling"


async def test_reading_needs_its_own_scope(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    rule = await rule_in(acme, card, "draft")
    reader = await running.caller(acme.credentials.name, role="user", scopes=("rules:read",))
    assert (await reader.get(f"{RULES}/{rule['id']}")) == rule
    assert (await reader.post(RULES, rule_of("card", card["id"]), 403))["type"].endswith("insufficient-scope")
    for operation in ("shadow", "activate", "retire"):
        await reader.post(f"{RULES}/{rule['id']}/{operation}", None, 403)


async def test_replacement_continues_the_rules_of_its_card(acme: Caller) -> None:
    card = await acme.funded_card()
    rule = await rule_in(acme, card, "active")
    draft = await rule_in(acme, card, "draft")
    await rule_in(acme, card, "retired")
    new = await acme.post(f"/v1/cards/{card['id']}/replace", {"reason": "damaged"})
    assert (await acme.spend(new, "1.00", mcc="7995"))["decline_detail"] == "no_gambling"
    moved = (await acme.get(f"{RULES}?scope_id={new['id']}"))["data"]
    assert {each["id"]: each["state"] for each in moved} == {rule["id"]: "active", draft["id"]: "draft"}
    await acme.post(f"{RULES}/{rule['id']}/retire", None, 200)
    assert (await acme.spend(new, "1.00", mcc="7995"))["decision"] == "approved"
