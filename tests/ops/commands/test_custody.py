"""``stanchion custody log``: views of card numbers and reads of applicants' data."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from actors.settings import Settings
from actors.vault import Vault
from ops.cli import app
from ops.commands.custody import CustodyLogError, lines, log
from ops.commands.kyc import read
from ops.expected_failures import EXPECTED_FAILURES
from tests.support.api.kyc.applicants import BASIC, applicant, begin, submit
from tests.support.api.stack import Installation, installation
from tests.support.api.vision.applicant import vision_host
from tests.support.api.vision.holder import show


@pytest.fixture
async def running(settings: Settings, vault: Vault) -> AsyncIterator[Installation]:
    async with installation(settings, vault) as started:
        yield started


async def stanchion(settings: Settings, *arguments: str) -> Result:
    environment = {"STANCHION_DATABASE_URL": settings.database_dsn, "STANCHION_REDIS_URL": settings.redis_dsn}
    command = ["custody", "log", *arguments, "--var", str(settings.var_dir)]
    return await asyncio.to_thread(lambda: CliRunner().invoke(app, command, env=environment))


async def shown_card(running: Installation) -> tuple[Any, str]:
    """A card that its holder has seen, and the client that opened the session."""
    acme = await running.caller()
    revealing = await running.caller(scopes=("cards:reveal",))
    card = await acme.funded_card("1.00")
    session = await revealing.post(f"/v1/cards/{card['id']}/reveal-sessions")
    async with vision_host(running) as http:
        await show(http, session["url"])
    return card, revealing.credentials.client_id


async def test_views_and_reads_are_listed_newest_first(
    running: Installation, settings: Settings, vault: Vault
) -> None:
    card, client_id = await shown_card(running)
    acme = await running.caller()
    check = await submit(acme, await begin(acme, "basic", await applicant(acme)), BASIC)
    reading = {"check_id": check["id"], "purpose": "address_verification", "reader": "Grace"}
    await read(settings.database_dsn, vault, "ann", **reading)
    rows = await log(settings.database_dsn, limit=100)
    assert [row["at"] for row in rows] == sorted((row["at"] for row in rows), reverse=True)
    assert {row["actor"] for row in rows} >= {
        f"client {client_id}",
        "holder at 203.0.113.9",
        "operator Grace",
    }
    of_card = await log(settings.database_dsn, id_=card["id"], limit=100)
    assert [(row["act"], row["about"], row["purpose"]) for row in of_card] == [
        ("viewed", "card", "cardholder_display"),
        ("opened", "card", "cardholder_display"),
    ]
    future = datetime.now(UTC) + timedelta(hours=1)
    assert await log(settings.database_dsn, since=future, limit=100) == []


async def test_command_prints_a_table_or_json(running: Installation, settings: Settings) -> None:
    card, client_id = await shown_card(running)
    table = await stanchion(settings, "--id", card["id"], "--since", "1h")
    assert (table.exit_code, table.stderr) == (0, "")
    head, viewed, opened = table.stdout.splitlines()
    assert head.split()[:2] == ["at", "act"]
    assert "viewed" in viewed
    assert f"client {client_id}" in opened
    printed = await stanchion(settings, "--json", "--limit", "1")
    (line,) = printed.stdout.splitlines()
    assert json.loads(line)["act"] == "viewed"


async def test_id_that_is_none_is_refused(database_url: str) -> None:
    with pytest.raises(CustodyLogError, match="UUID in lower case"):
        await log(database_url, id_="nonsense", limit=1)
    assert CustodyLogError in EXPECTED_FAILURES
    assert lines([]) == ["at  act  actor  purpose  about  id  session_id"]
