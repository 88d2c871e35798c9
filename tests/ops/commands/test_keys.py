"""A rotation of the master key: counts by key, resealing, and that every value still opens."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator

import asyncpg
import pytest
from typer.testing import CliRunner

from actors.network.card_secrets import CardSecrets
from actors.settings import Settings
from actors.vault import Vault
from actors.webhooks.signing_secrets import SigningSecrets
from api.people.personal_data import People, selected
from ops.cli import app
from ops.commands import keys as module
from ops.commands.keys import KeysError, reseal, status
from ops.expected_failures import EXPECTED_FAILURES
from tests.support.api.stack import Installation, installation

OLDEST, MIDDLE, NEWEST = (bytes([number]) * 32 for number in (1, 2, 3))
PANS, ENDPOINTS = 5, 2


@pytest.fixture
async def running(settings: Settings) -> AsyncIterator[Installation]:
    """An installation that has had its second master key for a while."""
    async with installation(settings, Vault((MIDDLE, OLDEST))) as started:
        caller = await started.caller()
        programme = await caller.programme(decisioning="delegated", decision_url="https://example.com/decide")
        product, holder = await caller.product(programme), await caller.cardholder(programme)
        for _ in range(PANS):
            await caller.card(product, holder)
        for number in range(ENDPOINTS):
            made = await caller.post(
                "/v1/webhook-endpoints",
                {"url": f"https://example.com/{number}", "event_types": ["*"]},
            )
            if number:
                await caller.post(f"/v1/webhook-endpoints/{made['id']}/rotate-secret", {}, status=200)
        yield started


async def counted(dsn: str, *masters: bytes) -> dict[str, dict[int | None, int]]:
    return {what: dict(counts) for what, counts in await status(dsn, Vault(masters))}


async def opened(dsn: str, vault: Vault) -> tuple[set[str], set[str]]:
    """Every card number and webhook secret, opened by ``vault``."""
    connection = await asyncpg.connect(dsn)
    try:
        cards, secrets = CardSecrets(vault), SigningSecrets(vault)
        numbers = {
            "".join(cards.open(row["card_id"], row["sealed"]))
            for row in await connection.fetch("SELECT card_id::text, sealed FROM pans")
        }
        rows = await connection.fetch(
            "SELECT id::text, secret_sealed AS sealed FROM webhook_endpoints UNION ALL"
            " SELECT id::text, previous_secret_sealed FROM webhook_endpoints"
            " WHERE previous_secret_sealed IS NOT NULL"
        )
        return numbers, {secrets.open(row["id"], row["sealed"]) for row in rows}
    finally:
        await connection.close(timeout=10)


async def test_resealing_makes_intermediate_keys_removable(
    running: Installation, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    dsn, rotated = settings.database_dsn, Vault((NEWEST, MIDDLE, OLDEST))
    before = await opened(dsn, running.services.vault)
    assert (len(before[0]), len(before[1])) == (PANS, ENDPOINTS + 1)
    rest = await counted(dsn, NEWEST, MIDDLE, OLDEST)
    assert rest["card numbers"] == {1: PANS}
    assert rest["webhook secrets"] == {1: ENDPOINTS}
    assert rest["decision secrets"] == {1: 1}
    assert (await counted(dsn, NEWEST, OLDEST))["card numbers"] == {None: PANS}
    with pytest.raises(KeysError, match="card numbers: sealed under a master key that is not in the list"):
        await reseal(dsn, Vault((NEWEST, OLDEST)), "ann")
    assert await opened(dsn, running.services.vault) == before

    assert await reseal(dsn, rotated, "ann") == [
        ("card numbers", PANS),
        ("webhook secrets", ENDPOINTS),
        ("previous webhook secrets", 1),
        ("authentication keys", 0),
        ("previous authentication keys", 0),
        ("data keys of cardholders", 1),
        ("one-time code secrets", 0),
        ("data keys of applicants", 0),
    ]
    assert {count for _, count in await reseal(dsn, rotated, "ann")} == {0}

    rest = await counted(dsn, NEWEST, MIDDLE, OLDEST)
    assert rest["card numbers"] == {0: PANS}
    assert rest["previous webhook secrets"] == {0: 1}
    assert rest["decision secrets"] == {1: 1}, "their owner has them in memory"
    assert await opened(dsn, Vault((NEWEST, OLDEST))) == before
    connection = await asyncpg.connect(dsn)
    row = await connection.fetchrow(f"SELECT id::text, tenant_id::text, {selected('r')} FROM cardholders r")
    await connection.close()
    assert row is not None
    assert People(Vault((NEWEST, OLDEST))).of(row)["given_name"] == "Ada"


async def test_commands_count_and_reseal(running: Installation, settings: Settings) -> None:
    environment = {
        "STANCHION_DATABASE_URL": settings.database_dsn,
        "STANCHION_MASTER_KEY": ",".join(base64.b64encode(key).decode() for key in (NEWEST, MIDDLE, OLDEST)),
    }

    async def stanchion(*arguments: str) -> str:
        command = ["keys", *arguments, "--var", str(settings.var_dir)]
        result = await asyncio.to_thread(lambda: CliRunner().invoke(app, command, env=environment))
        assert result.exit_code == 0, result.output
        return result.stdout

    assert f"card numbers: {PANS} under key 2\n" in await stanchion("status")
    assert f"card numbers: {PANS} resealed\n" in await stanchion("reseal")
    output = await stanchion("status")
    assert f"card numbers: {PANS} under key 1\n" in output
    assert "data keys of applicants: none\n" in output
    assert KeysError in EXPECTED_FAILURES
