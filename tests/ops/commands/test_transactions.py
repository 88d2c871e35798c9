"""``stanchion transactions``: a table, JSON lines, and one transaction with the trace of its decision."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from actors.settings import Settings
from actors.vault import Vault
from tests.support.ops.commands import Commands, commands


@pytest.fixture
async def running(settings: Settings, vault: Vault) -> AsyncIterator[Commands]:
    async with commands(settings, vault) as started:
        yield started


async def test_transactions_are_listed_and_filtered(running: Commands) -> None:
    card = await running.caller.funded_card("5.00")
    approved = await running.caller.spend(card, "2.00")
    declined = await running.caller.spend(card, "9.00")
    table = await running.run("transactions")
    assert (table.exit_code, table.stderr) == (0, "")
    head, first, second = table.stdout.splitlines()
    assert head.startswith("CREATED")
    assert (declined["transaction_id"] in first, "insufficient_funds" in first) == (True, True)
    assert approved["transaction_id"] in second
    for options in (("--decision", "declined"), ("--reason", "insufficient_funds"), ("--limit", "1")):
        found = await running.run("transactions", *options, "--since", "1h", "--json")
        ids = [json.loads(line)["id"] for line in found.stdout.splitlines()]
        assert ids == [declined["transaction_id"]]


async def test_transaction_is_shown_with_its_trace(running: Commands) -> None:
    card = await running.caller.funded_card("5.00")
    spend = await running.caller.spend(card, "2.00")
    shown = await running.run("transactions", "show", spend["transaction_id"])
    assert "  decision         approved, by platform\n" in shown.stdout
    assert "RULE " in shown.stdout
    assert "funds " in shown.stdout
    as_json = json.loads(
        (await running.run("transactions", "show", spend["transaction_id"], "--json")).stdout
    )
    assert as_json["id"] == spend["transaction_id"]
    assert as_json["trace"]
