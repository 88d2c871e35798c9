"""Snippets of single pages: requests are sent as printed, and JSON is what the code writes and reads."""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

from actors.settings import Settings
from actors.vault import Vault
from api.app import create_app
from engine.decision.delegation import EndpointResult, Question, question_body, read_answer
from engine.decline import (
    APPROVED,
    APPROVED_PARTIALLY,
    DUPLICATE_CONFLICT,
    REASONS,
    VERIFIED,
    response_code,
)
from engine.iso8583.respond import NOT_PERMITTED, NOT_SERVED, NOT_SUPPORTED
from engine.webhooks.envelope import envelope
from tests.api.docs.test_webhooks_page import run
from tests.support.api.stack import installation, served
from tests.support.ops.pages import ROOT, fence

STAND_IN = "ops/docs/STAND_IN.md"
WIRE = "ops/docs/WIRE.md"
CURRENCIES = "ops/docs/CURRENCIES.md"
GATEWAY = "ops/docs/GATEWAY.md"
WEBHOOKS = "ops/docs/WEBHOOKS.md"


def milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def shown_question() -> tuple[Question, dict[str, Any]]:
    """The question on the page, and its JSON."""
    shown = json.loads(fence(STAND_IN, "The question", "json"))
    fields = {name: shown[name] for name in Question.__struct_fields__ if name in shown}
    assert shown["amount"] == "42.50"
    merchant = {f"merchant_{name}": value for name, value in shown["merchant"].items()}
    return Question(**fields, **merchant, amount_minor=42_50), shown


def test_question_of_the_page_is_sent() -> None:
    question, shown = shown_question()
    body = question_body(question, milliseconds(shown["deadline_at"]))
    assert list(json.loads(body).items()) == list(shown.items())


def test_answer_of_the_page_is_usable() -> None:
    question, _ = shown_question()
    shown = fence(STAND_IN, "The answer", "json").encode()
    assert read_answer(question, 200, shown) == EndpointResult("approved", 25_00)


def test_response_codes_of_the_page_are_those_of_the_engine() -> None:
    """The page shows each reason with its codes on both networks, and no other reason."""
    section = (ROOT / WIRE).read_text("utf-8").partition("## Response codes")[2].partition("\n## ")[0]
    rows = [row.strip("|").partition("|") for row in section.splitlines() if row.startswith("|")][2:]
    shown = {(reason, code.strip()) for code, _, about in rows for reason in re.findall("`(.+?)`", about)}
    networks = ("visa", "mastercard")
    codes = {(reason, response_code(reason, network)) for reason in REASONS for network in networks}
    assert shown == codes
    others = {APPROVED, APPROVED_PARTIALLY, VERIFIED, DUPLICATE_CONFLICT, NOT_SUPPORTED}
    others |= {NOT_PERMITTED, NOT_SERVED}
    assert {code.strip() for code, _, _ in rows} == {code for _, code in codes} | others


def test_delivery_of_the_page_is_sent() -> None:
    """Equal apart from blanks."""
    text = fence(WEBHOOKS, "What arrives", "json")
    shown = json.loads(text)
    made = envelope(shown["id"], shown["type"], milliseconds(shown["created_at"]), json.dumps(shown["data"]))
    assert made.decode() == "".join(text.split())


async def test_converted_spend_of_the_page_is_approved(
    settings: Settings, vault: Vault, tmp_path: Path
) -> None:
    script = fence(CURRENCIES, "Trying it", "bash")
    async with installation(settings, vault) as running:
        caller = await running.caller()
        card = await caller.funded_card()
        async with served(create_app(running.services)) as base_url:
            accepted = json.loads(
                await run(script, tmp_path, BASE=base_url, TOKEN=caller.token, CARD=card["id"])
            )
        record = await caller.simulation(accepted["simulation_id"])
    assert (record["decision"], record["merchant_amount"]["currency"]) == ("approved", "JPY")


async def test_gateway_programme_of_the_page_is_created(
    settings: Settings, vault: Vault, tmp_path: Path
) -> None:
    script = fence(GATEWAY, "Switch it on", "bash")
    async with installation(settings, vault) as running:
        services = dataclasses.replace(running.services, settings=settings.replace(enable_gateway=True))
        caller = await running.caller()
        async with served(create_app(services)) as base_url:
            answer = json.loads(await run(script, tmp_path, BASE=base_url, TOKEN=caller.token))
    assert (answer["mode"], answer["decisioning"]) == ("gateway", "delegated")
    assert answer["decision_secret"].startswith("decsec_")
