"""The search box: what a text may stand for, and the page of the only hit."""

from __future__ import annotations

from typing import Any

import pytest

from actors.ids import new_id
from api.console.pages.search import KINDS, lookups_of
from tests.support.api.console.visitor import visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


@pytest.mark.parametrize(
    ("text", "lookups"),
    [
        ("1234", [("cards", {"last4": "1234"}), ("transactions", {"amount": "1234.00"})]),
        ("12.5", [("transactions", {"amount": "12.50"})]),
        ("12,50 EUR", [("transactions", {"amount": "12.50"})]),
        ("632620000008", [("transactions", {"rrn": "632620000008"})]),
        ("", []),
    ],
)
def test_digits_stand_for_cards_amounts_and_references(
    text: str, lookups: list[tuple[str, dict[str, str]]]
) -> None:
    found = [tuple(each) for each in lookups_of(text)]
    assert found[: len(lookups)] == lookups
    assert lookups or not found


async def test_search_finds_cards_cardholders_and_transactions(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("500.00")
    other = await acme.funded_card("500.00")
    spend = await acme.spend(card, "12.34", merchant_name="Blue <Door> Bakery")
    await acme.spend(card, "43.21", merchant_name="Corner Shop")
    await acme.spend(other, "43.21", merchant_name="Corner Shop")
    transaction = await acme.get(f"/v1/transactions/{spend['transaction_id']}")
    page_of_spend = f"/console/transactions/{spend['transaction_id']}"
    cards = (await acme.get(f"/v1/cards?last4={card['last4']}"))["data"]

    async def location(browser: Any, text: str) -> str:
        answer = await browser.http.get(
            "/console/search", params={"q": text}, headers={"Accept": "text/html"}
        )
        where: str = answer.headers.get("location", "")
        return where

    async with visitor(running, acme) as browser:
        if len(cards) == 1:
            assert await location(browser, card["last4"]) == f"/console/cards/{card['id']}"
        assert await location(browser, card["id"].upper()) == f"/console/cards/{card['id']}"
        assert (
            await location(browser, card["cardholder_id"]) == f"/console/cardholders/{card['cardholder_id']}"
        )
        assert await location(browser, card["programme_id"]) == f"/console/programmes/{card['programme_id']}"
        for text in ("12.34", "blue <door>", transaction["network"]["rrn"], transaction["id"]):
            assert await location(browser, text) == page_of_spend, text
        several = await browser.get("/search", q="43.21")
        assert several.text.count("Corner Shop") == 2
        holders = await browser.get("/search", q="ADA@example.com")
        assert holders.text.count("/console/cardholders/") == 2
        for nothing in ("zzz nothing", "9.99", new_id()):
            assert (
                "Nothing found in test mode"
                in (await browser.http.get("/console/search", params={"q": nothing})).text
            )
        assert "Type something" in (await browser.get("/search")).text
        await browser.get("/search", q="x\0y" * 100)


async def test_search_stays_within_the_tenant_and_the_scopes(
    running: Installation, acme: Caller, tenant: str
) -> None:
    card = await acme.funded_card()
    await acme.spend(card, "77.77")
    rival = await running.caller(f"{tenant}-rival")
    narrow = await running.caller(tenant, scopes=("cards:read",))
    for caller, texts in ((rival, (card["id"], card["last4"], "77.77")), (narrow, ("77.77",))):
        async with visitor(running, caller) as browser:
            for text in texts:
                answer = await browser.http.get("/console/search", params={"q": text})
                assert "Nothing found" in answer.text, text


async def test_every_kind_names_an_operation_of_the_api(running: Installation, acme: Caller) -> None:
    for kind in KINDS:
        assert (await acme.send("GET", f"{kind.path}{new_id()}")).status_code in {403, 404}, kind.path
