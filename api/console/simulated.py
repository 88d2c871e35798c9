"""The simulated network in forms: one message for each form, its decision, and the outcome in words."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import orjson
from starlette.responses import Response

from api.console.api_calls import PageProblem, Problem
from api.console.view import View
from api.database.pool import Connection
from api.http.answers import json_response
from api.operations.idempotency import claim_of, hand_over

DECISION_POLLS_MAX: Final = 100
DECISION_POLL_SECONDS: Final = 0.05


async def send_once(view: View, body: dict[str, Any]) -> dict[str, Any] | Problem:
    """The acceptance of a simulated spend. The operation takes no idempotency key, because each call is a
    message of its own; the console claims the key of the form, so that a form sent twice is one message."""

    async def prepare(_connection: Connection) -> None:
        return None

    async def send(_prepared: None) -> Response:
        answer = await view.api.post("/v1/simulated-spends", body)
        if isinstance(answer, Problem):
            raise PageProblem(answer)
        return json_response(202, answer)

    claim = claim_of(view.services, view.caller, view.request, view.form().get("key", ""), body)
    try:
        accepted = await hand_over(view.services, claim, prepare, send)
    except PageProblem as refused:
        return refused.problem
    found: dict[str, Any] = orjson.loads(accepted.body)
    return found


async def decision(view: View, simulation_id: str) -> dict[str, Any] | None:
    """The simulation once it has ended; ``None`` if it does not end in time."""
    for _ in range(DECISION_POLLS_MAX):
        found = await view.api.require(f"/v1/simulated-spends/{simulation_id}")
        if found["state"] in {"decided", "failed"}:
            return found
        await asyncio.sleep(DECISION_POLL_SECONDS)
    return None


async def simulation_of(view: View, transaction: Mapping[str, Any]) -> dict[str, Any] | None:
    """The spend or the force post that made the transaction; ``None`` outside of test mode."""
    if not view.may("list_simulated_spends"):
        return None
    answer = await view.api.get("/v1/simulated-spends", transaction_id=transaction["id"])
    rows = [] if isinstance(answer, Problem) else answer["data"]
    return next((each for each in rows if each["parent_simulation_id"] is None), None)


def outcome(done: str, ended: Mapping[str, Any] | None) -> str:
    """The notice after a message: ``done``, such as "Approved", with its amount; or why it was not done."""
    if ended is None:
        return "The message is sent; it has no answer yet."
    if ended["state"] == "failed":
        failure = ended["failure"]
        return f"The message failed: {failure['detail'] if failure else 'no answer'}"
    if ended["decision"] == "declined":
        reason = (ended["decline_reason"] or "").replace("_", " ")
        return f"Declined: {reason or ended['response_code']}."
    amount = ended["approved_amount"] or ended["amount"]
    return f"{done}: {amount['amount']} {amount['currency']}."
