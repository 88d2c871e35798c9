"""Programmes that decide themselves, as their customers set them up."""

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
    """Up to 50.00 for each approval and 100.00 for each outage, in euro; ``None`` leaves a member out."""
    given = {
        "mode": "approve_within_limits",
        "max_amount": "50.00",
        "max_total_exposure": money("100.00"),
    } | parts
    return {name: value for name, value in given.items() if value is not None}


async def put_policy(caller: Caller, programme_id: str, body: Any, status: int = 200, **options: Any) -> Any:
    """The body of a PUT of a stand-in policy that ends with ``status``."""
    response = await caller.send("PUT", f"/v1/programs/{programme_id}/stip-policy", body, **options)
    assert response.status_code == status, response.text
    return response.json()


async def declare(caller: Caller, card: Any, amount: str) -> None:
    """What ``card`` may spend in stand-in."""
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
    """A card with money, and a declared balance, of a new programme that decides itself."""
    delegated = {"decisioning": "delegated", "decision_url": url, "decision_timeout_ms": timeout_ms}
    made = await caller.programme(**delegated | programme)
    if stand_in is not None:
        await put_policy(caller, made["id"], stand_in)
    card = await one_more_card(caller, made, declared, funds)
    return card | {"decision_secret": made["decision_secret"]}


async def one_more_card(caller: Caller, programme: Any, declared: str | None, funds: str = "100.00") -> Any:
    """A card of a programme that is there."""
    card = await caller.card(await caller.product(programme), await caller.cardholder(programme))
    if funds != "0.00":
        await caller.load(card, funds)
    if declared is not None:
        await declare(caller, card, declared)
    return card


def recent() -> str:
    """The query of a window around now."""
    now = datetime.now(UTC)
    begin, end = (now + timedelta(hours=hours) for hours in (-1, 1))
    return f"from={begin:%Y-%m-%dT%H:%M:%SZ}&to={end:%Y-%m-%dT%H:%M:%SZ}"


async def activity(caller: Caller, programme_id: str, query: str = "") -> list[Any]:
    """The report of the last hour, newest first."""
    page = await caller.get(f"/v1/programs/{programme_id}/stip-activity?{recent()}{query}")
    assert page["unattributed_count"] == 0
    found: list[Any] = page["data"]
    return found
