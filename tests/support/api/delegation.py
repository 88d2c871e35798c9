"""Set up programmes with delegated decisioning over the API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.api.driver import Caller

NOWHERE = "https://decisions.example.com/authorize"
TIMEOUT_MS = 200


def money(amount: str, currency: str = "EUR") -> dict[str, str]:
    """A Money object."""
    return {"amount": amount, "currency": currency}


def policy(**parts: Any) -> dict[str, Any]:
    """A stand-in policy: up to EUR 50.00 per approval and 100.00 per outage; ``None`` omits a member."""
    given = {
        "mode": "approve_within_limits",
        "max_amount": "50.00",
        "max_total_exposure": money("100.00"),
    } | parts
    return {name: value for name, value in given.items() if value is not None}


async def put_policy(caller: Caller, programme_id: str, body: Any, status: int = 200, **options: Any) -> Any:
    """PUT a stand-in policy, expect ``status``, and return the response body."""
    response = await caller.send("PUT", f"/v1/programs/{programme_id}/stip-policy", body, **options)
    assert response.status_code == status, response.text
    return response.json()


async def declare(caller: Caller, card: Any, amount: str) -> None:
    """Declare the balance that ``card`` may spend in stand-in."""
    body = {"balance": money(amount, card["currency"])}
    response = await caller.send("PUT", f"/v1/cards/{card['id']}/declared-balance", body)
    assert response.status_code == 200, response.text


async def delegated_card(
    caller: Caller,
    stand_in: Any = None,
    *,
    url: str = NOWHERE,
    declared: str | None = "100.00",
    funds: str = "100.00",
    timeout_ms: int = TIMEOUT_MS,
    **programme: Any,
) -> Any:
    """A funded card with a declared balance, in a new programme with delegated decisioning."""
    delegated = {"decisioning": "delegated", "decision_url": url, "decision_timeout_ms": timeout_ms}
    made = await caller.programme(**delegated | programme)
    if stand_in is not None:
        await put_policy(caller, made["id"], stand_in)
    card = await one_more_card(caller, made, declared, funds)
    return card | {"decision_secret": made["decision_secret"]}


async def one_more_card(caller: Caller, programme: Any, declared: str | None, funds: str = "100.00") -> Any:
    """Another card of an existing programme."""
    card = await caller.card(await caller.product(programme), await caller.cardholder(programme))
    if funds != "0.00":
        await caller.load(card, funds)
    if declared is not None:
        await declare(caller, card, declared)
    return card


def recent() -> str:
    """The query for the window from one hour ago to one hour ahead."""
    now = datetime.now(UTC)
    begin, end = (now + timedelta(hours=hours) for hours in (-1, 1))
    return f"from={begin:%Y-%m-%dT%H:%M:%SZ}&to={end:%Y-%m-%dT%H:%M:%SZ}"


async def activity(caller: Caller, programme_id: str, query: str = "") -> list[Any]:
    """The stand-in activity of the window of ``recent``, newest first."""
    page = await caller.get(f"/v1/programs/{programme_id}/stip-activity?{recent()}{query}")
    assert page["unattributed_count"] == 0
    found: list[Any] = page["data"]
    return found
