"""The audit log: every operation that changes something leaves an entry, without secrets or personal data."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from api.access.permissions import PERMISSIONS
from api.app import operations
from api.cardholders.changes import finish
from api.cardholders.status import CardholderRef, open_change
from api.database.pool import transaction
from api.operations.acts import OWN_ACTS, RECORDED, SIGN_IN, SIGN_OUT, UNRECORDED
from engine.limits import PAGE_LIMIT_MAX
from engine.scopes import SCOPES
from tests.support.api.authorization_rules import rule_of
from tests.support.api.driver import Caller
from tests.support.api.kyc.applicants import BASIC, submit
from tests.support.api.stack import Installation

PERSON = {
    "given_name": "Canary-Given",
    "family_name": "Canary-Family",
    "email": "canary@example.com",
    "phone": "+353861234567",
    "external_ref": "canary-4711",
}


@pytest_asyncio.fixture(loop_scope="session")
async def owner(running: Installation, tenant: str) -> Caller:
    """The owner of a new tenant."""
    return await running.caller(tenant, role="owner", scopes=SCOPES)


async def entries(caller: Caller, query: str = "") -> list[Any]:
    """All entries without those of the command line, oldest first."""
    page = await caller.get(f"/v1/audit-log?limit={PAGE_LIMIT_MAX}{query}")
    assert not page["has_more"]
    return [each for each in page["data"][::-1] if each["actor"]["kind"] == "client"]


async def every_operation(owner: Caller) -> dict[str, str]:
    """Carry out every recorded operation once; returns the object of each."""
    done: dict[str, str] = {}
    programme = await owner.programme()
    done["create_program"] = programme["id"]
    await owner.patch(f"/v1/programs/{programme['id']}", {"name": "Renamed"})
    done["update_program"] = programme["id"]
    policy = {"mode": "decline_all"}
    assert (await owner.send("PUT", f"/v1/programs/{programme['id']}/stip-policy", policy)).status_code == 200
    done["set_stip_policy"] = programme["id"]
    product = await owner.product(programme)
    done["create_card_product"] = product["id"]
    await owner.patch(f"/v1/card-products/{product['id']}", {"external_ref": "basic"})
    done["update_card_product"] = product["id"]
    holder = await owner.cardholder(programme, **PERSON)
    done["create_cardholder"] = holder["id"]
    await owner.patch(f"/v1/cardholders/{holder['id']}", {"email": "canary2@example.com"})
    done["update_cardholder"] = holder["id"]
    card = await owner.post("/v1/cards", {"card_product_id": product["id"], "cardholder_id": holder["id"]})
    done["create_card"] = card["id"]
    balance = {"balance": {"amount": "5.00", "currency": "EUR"}}
    path = f"/v1/cards/{card['id']}/declared-balance"
    assert (await owner.send("PUT", path, balance)).status_code == 200
    done["declare_balance"] = card["id"]
    await owner.patch(f"/v1/cards/{card['id']}", {"metadata": {"team": "north"}})
    await owner.post(f"/v1/cards/{card['id']}/reveal-sessions", {})
    new = await owner.post(f"/v1/cards/{card['id']}/replace", {"reason": "damaged"})
    await owner.patch(f"/v1/cards/{new['id']}", {"state": "terminated"})
    done |= dict.fromkeys(("update_card", "create_reveal_session", "replace_card"), card["id"])
    done |= await _records(owner)
    done |= await _kyc(owner, holder)
    assert (await owner.send("DELETE", f"/v1/cardholders/{holder['id']}")).status_code == 204
    done["delete_cardholder"] = holder["id"]
    await owner.post(f"/v1/card-products/{product['id']}/retire", None, 200)
    done["retire_card_product"] = product["id"]
    done |= await _webhooks(owner)
    done |= await _rules(owner, programme)
    done |= await _users(owner)
    return done | await _clients(owner)


async def _rules(owner: Caller, programme: Any) -> dict[str, str]:
    rule = await owner.post("/v1/authorization-rules", rule_of("programme", programme["id"]))
    path = f"/v1/authorization-rules/{rule['id']}"
    await owner.patch(path, {"name": "Renamed"})
    for operation in ("shadow", "activate", "retire"):
        await owner.post(f"{path}/{operation}", None, 200)
    names = ("create", "update", "shadow", "activate", "retire")
    return {f"{name}_authorization_rule": rule["id"] for name in names}


async def _records(owner: Caller) -> dict[str, str]:
    card = await owner.funded_card()
    spend = await owner.spend(card, "1.00")
    await owner.patch(f"/v1/transactions/{spend['transaction_id']}", {"metadata": {"invoice": "7"}})
    window = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    export = await owner.post("/v1/exports", {"kind": "transactions", **window}, 202)
    scope = {"type": "card", "id": card["id"]}
    asked = {"scope": scope, **window, "change": {"controls": {"remove": ["mcc_deny"]}}}
    backtest = await owner.post("/v1/backtests", asked, 202)
    assert (await owner.send("DELETE", f"/v1/backtests/{backtest['id']}")).status_code == 200
    body = {"account_id": card["funding_account_id"], "direction": "debit", "kind": "fee"}
    transfer = await owner.post("/v1/transfers", body | {"amount": {"amount": "1.00", "currency": "EUR"}})
    await owner.post(f"/v1/transfers/{transfer['id']}/reverse", {}, 200)
    return {
        "update_transaction": spend["transaction_id"],
        "create_export": export["id"],
        **dict.fromkeys(("create_backtest", "cancel_backtest"), backtest["id"]),
        "create_transfer": transfer["id"],
        "reverse_transfer": transfer["id"],
    }


async def _kyc(owner: Caller, holder: Any) -> dict[str, str]:
    check = await owner.post("/v1/kyc/checks", {"cardholder_id": holder["id"], "flow_key": "basic"})
    await submit(owner, check, BASIC | {"family_name": "REVIEW"})
    await owner.post(f"/v1/kyc/checks/{check['id']}/review", {"outcome": "passed"}, 200)
    full = await owner.post("/v1/kyc/checks", {"cardholder_id": holder["id"], "flow_key": "full"})
    session = await owner.post(f"/v1/kyc/checks/{full['id']}/capture-sessions", {"kind": "flow"})
    return {
        "create_kyc_check": check["id"],
        "submit_kyc_data": check["id"],
        "review_kyc_check": check["id"],
        "create_capture_session": session["id"],
    }


async def _webhooks(owner: Caller) -> dict[str, str]:
    endpoint = await owner.endpoint()
    await owner.patch(f"/v1/webhook-endpoints/{endpoint['id']}", {"description": "Ledger"})
    await owner.post(f"/v1/webhook-endpoints/{endpoint['id']}/rotate-secret", None, 200)
    await owner.post(f"/v1/webhook-endpoints/{endpoint['id']}/test", None, 202)
    event = (await owner.get("/v1/events?limit=1"))["data"][0]
    await owner.post(f"/v1/events/{event['id']}/redeliver", {"endpoint_id": endpoint["id"]}, 202)
    assert (await owner.send("DELETE", f"/v1/webhook-endpoints/{endpoint['id']}")).status_code == 204
    names = ("create", "update", "delete")
    return {
        **{f"{name}_webhook_endpoint": endpoint["id"] for name in names},
        "rotate_webhook_secret": endpoint["id"],
        "send_test_event": endpoint["id"],
        "redeliver_event": event["id"],
    }


async def _clients(owner: Caller) -> dict[str, str]:
    made = await owner.post("/v1/clients", {"role": "user", "name": "Shop"})
    await owner.post(f"/v1/clients/{made['id']}/rotate-secret", None, 200)
    await owner.post(f"/v1/clients/{made['id']}/revoke", None, 200)
    return dict.fromkeys(("create_client", "rotate_client_secret", "revoke_client"), made["id"])


async def _users(owner: Caller) -> dict[str, str]:
    body = {"email": f"ada@{owner.credentials.name}.example", "name": "Canary Ada", "role": "admin"}
    made = await owner.post("/v1/users", body)
    path = f"/v1/users/{made['id']}"
    await owner.patch(path, {"role": "user"})
    await owner.post(f"{path}/invite")
    for act in ("reset-totp", "end-sessions", "disable", "enable"):
        await owner.post(f"{path}/{act}", None, 200)
    names = ("create_user", "update_user", "invite_user", "disable_user", "enable_user")
    return dict.fromkeys(names, made["id"])


def test_every_operation_is_either_recorded_or_changes_nothing() -> None:
    """New operations that write are recorded, unless they are listed as an exception."""
    for operation in operations():
        writes = operation.method != "GET"
        simulated = PERMISSIONS[operation.name].scope.startswith("simulations:")
        recorded = operation.name in RECORDED
        excepted = simulated or operation.name in UNRECORDED | {"replay_transaction", "evaluate_card"}
        assert recorded == (writes and not excepted), operation.name


async def test_every_recorded_operation_leaves_entries_about_its_object(
    running: Installation, owner: Caller
) -> None:
    done = await every_operation(owner)
    # Those of users on their own account, and those that had nothing to change: tests of the console.
    elsewhere = {SIGN_IN, SIGN_OUT, *OWN_ACTS, "reset_user_totp", "end_user_sessions"}
    assert done.keys() == set(RECORDED) - elsewhere
    found = await entries(owner)
    (own, *_) = reversed((await owner.get("/v1/clients"))["data"])
    assert {each["actor"]["id"] for each in found} == {own["id"]}
    about = {(each["act"], each["object"]["id"]) for each in found}
    assert set(done.items()) <= about
    assert {act for act, _ in about} == done.keys()
    assert all(each["before"] is not None or each["after"] is not None for each in found)


async def test_entries_hold_neither_personal_data_nor_secrets(running: Installation, owner: Caller) -> None:
    made = await owner.post("/v1/clients", {"role": "user"})
    endpoint = await owner.endpoint()
    programme = await owner.programme()
    await every_operation(owner)
    rows = await running.services.pool.fetch("SELECT audit_log::text AS row FROM audit_log")
    text = "\n".join(row["row"] for row in rows)
    values = (*PERSON.values(), *BASIC.values(), "canary2@example.com")
    # Random ids contain the code of every country sooner or later.
    for value in (each for each in values if len(each) > len("IE")):
        assert value not in text, value
    for secret in (made["client_secret"], endpoint["secret"], programme["decision_secret"]):
        assert secret not in text
    created = (await entries(owner, "&act=create_cardholder"))[0]["after"]
    assert {created[name] for name in ("given_name", "email", "external_ref")} == {"***"}
    assert created["date_of_birth"] is None
    (changed,) = await entries(owner, "&act=update_cardholder")
    assert (changed["before"], changed["after"]) == ({"email": "***"}, {"email": "***"})


async def test_entry_names_the_request_and_the_changed_members(owner: Caller) -> None:
    card = await owner.funded_card()
    headers = {"X-Request-Id": "support-case-17"}
    response = await owner.send("PATCH", f"/v1/cards/{card['id']}", {"state": "suspended"}, headers=headers)
    assert response.headers["x-request-id"] == "support-case-17"
    (entry,) = await entries(owner, f"&object_id={card['id']}&act=update_card")
    assert entry["request_id"] == "support-case-17"
    assert entry["object"] == {"kind": "card", "id": card["id"]}
    assert (entry["before"], entry["after"]) == ({"state": "active"}, {"state": "suspended"})


async def test_refused_repeated_and_ineffective_requests_leave_no_entry(owner: Caller) -> None:
    card = await owner.funded_card()
    path = f"/v1/cards/{card['id']}"
    for body, status in (({"state": "active"}, 200), ({"state": "unactivated"}, 409), ({"x": 1}, 400)):
        await owner.patch(path, body, status)
    for _ in range(2):
        await owner.patch(path, {"state": "suspended"}, key="once")
    endpoint = await owner.endpoint()
    await owner.patch(f"/v1/webhook-endpoints/{endpoint['id']}", {"url": endpoint["url"]})
    found = await entries(owner, f"&object_id={card['id']}")
    assert [each["act"] for each in found] == ["create_card", "update_card"]
    assert len(await entries(owner, f"&object_id={endpoint['id']}")) == 1


async def test_simulated_traffic_and_reads_leave_no_entry(owner: Caller) -> None:
    card = await owner.funded_card()
    before = len(await entries(owner))
    await owner.spend(card, "1.00")
    await owner.get(f"/v1/cards/{card['id']}/balance")
    assert len(await entries(owner)) == before


async def test_filters_and_pages(running: Installation, owner: Caller, tenant: str) -> None:
    admin = await running.caller(tenant)
    programme = await owner.programme()
    for number in range(3):
        await admin.patch(f"/v1/programs/{programme['id']}", {"name": f"N{number}"})
    by = {each["act"]: each["actor"]["id"] for each in await entries(owner)}
    assert by["update_program"] != by["create_program"]
    found = await entries(owner, f"&actor={by['update_program']}")
    assert [each["after"]["name"] for each in found] == ["N0", "N1", "N2"]
    same = await entries(owner, f"&actor={by['update_program']}&object_id={programme['id']}")
    assert [each["id"] for each in same] == [each["id"] for each in found]
    assert await entries(owner, f"&actor={by['update_program']}&object_id=absent") == []
    page = await owner.get("/v1/audit-log?limit=2&act=update_program")
    assert (len(page["data"]), page["has_more"]) == (2, True)
    rest = await owner.get(f"/v1/audit-log?act=update_program&starting_after={page['next_cursor']}")
    assert [each["after"]["name"] for each in page["data"] + rest["data"]] == ["N2", "N1", "N0"]
    at = found[1]["recorded_at"]
    later = await entries(owner, f"&from={at}&act=update_program")
    earlier = await entries(owner, f"&to={at}&act=update_program")
    assert [each["id"] for each in earlier + later] == [each["id"] for each in found]
    for wrong in ("act=fly", "actor=", "from=yesterday", "limit=0", "colour=red"):
        assert (await owner.send("GET", f"/v1/audit-log?{wrong}")).status_code == 400


async def test_roles_and_scope_of_the_log(running: Installation, tenant: str) -> None:
    for role, status in (("user", 403), ("admin", 200), ("owner", 200)):
        caller = await running.caller(tenant, role=role, scopes=("audit:read",))
        assert (await caller.send("GET", "/v1/audit-log")).status_code == status
    without = await running.caller(tenant, role="owner", scopes=("cards:read",))
    assert (await without.send("GET", "/v1/audit-log")).status_code == 403


async def test_tenants_and_modes_have_logs_of_their_own(
    running: Installation, owner: Caller, tenant: str
) -> None:
    rival = await running.caller(f"{tenant}-rival", role="owner")
    live = await running.caller(tenant, mode="live", role="owner")
    programme = await owner.programme()
    (mine,) = await entries(owner)
    for other in (rival, live):
        assert await entries(other) == []
        assert await entries(other, f"&object_id={programme['id']}") == []
        assert (await other.send("GET", f"/v1/audit-log?starting_after={mine['id']}")).status_code == 400


async def test_acts_of_operators_are_in_the_log_of_the_tenant(running: Installation, owner: Caller) -> None:
    page = await owner.get("/v1/audit-log")
    (entry,) = page["data"]
    assert (entry["act"], entry["actor"]) == (
        "create_client",
        {"kind": "operator", "id": "test", "name": None},
    )
    assert entry["after"]["client_id"] == owner.credentials.client_id
    assert owner.credentials.client_secret not in json.dumps(entry)


async def test_status_change_that_another_request_finishes_is_recorded_for_its_client(
    running: Installation, owner: Caller
) -> None:
    """The API server ends between the first step of the change and its last."""
    services = running.services
    holder = await owner.cardholder(await owner.programme())
    (own,) = (await owner.get("/v1/clients"))["data"]
    tenant_id = await services.pool.fetchval("SELECT tenant_id::text FROM clients WHERE id = $1", own["id"])
    await services.pool.execute(
        "INSERT INTO cardholder_status_changes (cardholder_id, id, status, resume_at, actor, request_id)"
        " VALUES ($1::uuid, $2::uuid, 'blocked', now(), $3, 'request-9')",
        holder["id"],
        services.new_id(),
        own["id"],
    )
    async with transaction(services.pool) as connection:
        change = await open_change(connection, CardholderRef(holder["id"], tenant_id, False))
    assert change is not None
    await finish(services, change)
    (entry,) = await entries(owner, f"&act=update_cardholder&object_id={holder['id']}")
    assert (entry["actor"]["id"], entry["request_id"]) == (own["id"], "request-9")
    assert (entry["before"], entry["after"]) == ({"status": "active"}, {"status": "blocked"})


@pytest.mark.parametrize("statement", ["UPDATE audit_log SET actor = ''", "DELETE FROM audit_log"])
async def test_rows_cannot_be_changed(running: Installation, owner: Caller, statement: str) -> None:
    await owner.programme()
    with pytest.raises(asyncpg.RaiseError, match="audit_log is append-only"):
        await running.services.pool.execute(statement)
