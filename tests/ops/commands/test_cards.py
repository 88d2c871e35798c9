"""``stanchion cards``: a table, JSON lines, and one card with its balance."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from actors.settings import Settings
from actors.vault import Vault
from stanchion import NotFoundError
from tests.support.ops.commands import Commands, commands


@pytest.fixture
async def running(settings: Settings, vault: Vault) -> AsyncIterator[Commands]:
    async with commands(settings, vault) as started:
        yield started


async def test_cards_are_listed_newest_first_and_filtered(running: Commands) -> None:
    old, new = [await running.caller.funded_card("5.00") for _ in range(2)]
    table = await running.run("cards")
    assert (table.exit_code, table.stderr) == (0, "")
    head, first, second = table.stdout.splitlines()
    assert head.split()[:2] == ["CREATED", "CARD"]
    assert (new["id"] in first, old["id"] in second) == (True, True)
    of_programme = await running.run("cards", "--programme", old["programme_id"], "--json")
    assert [json.loads(line)["id"] for line in of_programme.stdout.splitlines()] == [old["id"]]
    assert len((await running.run("cards", "--limit", "1")).stdout.splitlines()) == 2
    assert (await running.run("cards", "--state", "lost", "--json")).stdout == ""


async def test_card_is_shown_with_its_balance(running: Commands) -> None:
    card = await running.caller.funded_card("5.00")
    shown = await running.run("cards", "show", card["id"])
    assert f"  card        {card['id']}\n" in shown.stdout
    assert "  available   5.00 EUR\n" in shown.stdout
    as_json = json.loads((await running.run("cards", "show", card["id"], "--json")).stdout)
    assert (as_json["id"], as_json["balance"]["available"]) == (card["id"], "5.00")
    unknown = await running.run("cards", "show", "01a206b3-ba76-7767-ab68-edf183e3853f")
    assert isinstance(unknown.exception, NotFoundError)
