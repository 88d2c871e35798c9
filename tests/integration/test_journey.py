"""The steps of a new customer over HTTP, on an installation as `make run` starts it."""

from __future__ import annotations

from authlib.integrations.requests_client import OAuth2Session  # type: ignore[import-untyped]

from tests.support.api.driver import Caller
from tests.support.integration.stack import Stack, until


async def test_health_and_metrics_pages(stack: Stack) -> None:
    assert stack.page("/healthz") == (200, "ok\n")
    await until(lambda: stack.page("/readyz") == (200, "ready\n"), "every part is ready")
    for series in ('commits_total{process="host-', 'shards_unowned{process="coordinator"} 0.0'):
        # On a busy machine, a page may lack a process.
        await until(lambda series=series: f"stanchion_{series}" in stack.page("/metrics")[1], series)  # type: ignore[misc]


def test_installation_listens_on_loopback_only(running: Stack) -> None:
    assert running.listening() == {"127.0.0.1"}


def test_third_party_oauth_client_gets_a_token(running: Stack) -> None:
    client = running.client("demo", "test", "user")
    address = running.record["base_url"]
    with OAuth2Session(client["client_id"], client["client_secret"], scope="cards:read") as session:
        token = session.fetch_token(f"{address}/v1/oauth/token", grant_type="client_credentials")
        assert (token["token_type"], token["scope"]) == ("Bearer", "cards:read")
        assert session.get(f"{address}/v1/cards").status_code == 200
        refused = session.get(f"{address}/v1/programs")
    assert refused.status_code == 403
    assert refused.headers["Content-Type"] == "application/problem+json"


async def test_card_issue_spends_and_explained_declines(demo: Caller) -> None:
    card = await demo.funded_card("100.00", controls=[{"kind": "mcc_deny", "values": ["7995"]}])
    approved = await demo.spend(card, "42.50", entry_mode="contactless")
    assert (approved["state"], approved["decision"], approved["response_code"]) == (
        "decided",
        "approved",
        "00",
    )
    assert await balance(demo, card) == ("100.00", "42.50", "57.50")

    declined = await demo.spend(card, "5.00", mcc="7995")
    assert (declined["decline_reason"], declined["response_code"]) == ("mcc_not_allowed", "57")
    partial = await demo.spend(card, "80.00", scenario="partial_approval")
    assert (partial["response_code"], partial["approved_amount"]["amount"]) == ("10", "57.50")
    refund = await demo.spend(card, "20.00", kind="refund")
    assert (refund["decision"], refund["hold_id"]) == ("approved", None)
    verification = await demo.spend(card, "0.00")
    assert (verification["response_code"], verification["hold_id"]) == ("85", None)
    assert await balance(demo, card) == ("120.00", "100.00", "20.00")

    transaction = await demo.get(f"/v1/transactions/{declined['transaction_id']}")
    assert transaction["status"] == "declined"
    assert [step["rule"] for step in transaction["trace"] if step["outcome"] == "fail"] == ["mcc_deny"]
    listed = await demo.get(f"/v1/transactions?card_id={card['id']}")
    assert [each["kind"] for each in listed["data"]] == [
        "verification",
        "refund",
        "purchase",
        "purchase",
        "purchase",
    ]

    await demo.patch(f"/v1/cards/{card['id']}", {"state": "suspended"})
    body = {
        "card_id": card["id"],
        "amount": {"amount": "1.00", "currency": "EUR"},
        "mcc": "5411",
        "merchant_name": "Corner Shop",
        "channel": "pos",
    }
    problem = await demo.post("/v1/simulated-spends", body, 409, key=None)
    assert problem["type"].endswith("/problems/card-not-active")

    events = (await demo.get("/v1/events?limit=100"))["data"]
    decided = [
        event["data"]["decision"]
        for event in events
        if event["type"] == "authorization.decided" and event["data"]["card_id"] == card["id"]
    ]
    assert decided == ["approved", "approved", "approved", "declined", "approved"]


async def balance(caller: Caller, card: dict[str, str]) -> tuple[str, str, str]:
    found = await caller.get(f"/v1/cards/{card['id']}/balance")
    return found["posted"], found["held"], found["available"]


async def test_api_description_and_docs_page_are_served(stack: Stack, demo: Caller) -> None:
    description = await demo.get("/docs/openapi.json")
    assert {"/v1/oauth/token", "/v1/cards", "/v1/simulated-spends"} <= description["paths"].keys()
    page = await demo.http.get("/docs")
    assert page.status_code == 200
    assert "://" not in page.text.replace(stack.record["base_url"], "").replace("http://www.w3.org", "")


async def test_optional_helpers_of_ray_do_not_run(stack: Stack) -> None:
    commands = stack.descendants().values()
    assert any("raylet" in command for command in commands)
    helpers = ("/autoscaler/", "/log_monitor.py", "/dashboard/dashboard.py")
    assert [command for command in commands if any(helper in command for helper in helpers)] == []
