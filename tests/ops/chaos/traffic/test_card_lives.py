"""The cardholder of a chaos run gives the checks of rare operations their subjects."""

from __future__ import annotations

from pathlib import Path

from actors.settings import Settings
from actors.vault import Vault
from api.vision.app import create_app
from ops.audit import audit
from ops.chaos.traffic.card_lives import CardLife
from ops.embedded.ports import free_port
from stanchion import AsyncClient
from tests.support.api.stack import installation, served

CHECKS = (
    "decisions of the simulated network's own stand-in are advised",
    "a presented refund is credited",
    "no force post while its authorization was open",
    "each executed replacement links its card with one replacement",
    "a replaced card has ended, and its replacement has its account",
    "a replacement continues the counters of its card",
    "a card number is shown once for each session, and each view is in the custody log",
)


async def test_two_rounds_give_every_check_subjects(database_url: str, tmp_path: Path) -> None:
    settings = Settings.load(
        var_dir=tmp_path, database_url=database_url, iso8583_port=free_port(), vision_port=free_port()
    )
    secrets: list[str] = []
    async with installation(settings, Vault.from_settings(settings)) as running:
        caller = await running.caller()
        revealing = await running.caller(scopes=("cards:reveal",))
        card = await caller.funded_card("1000.00")
        vision = create_app(running.services)
        async with served(running.app) as base_url, served(vision, settings.vision_port):
            api, showing = (
                AsyncClient(base_url, each.credentials.client_id, each.credentials.client_secret)
                for each in (caller, revealing)
            )
            life = CardLife(api, showing, card["id"], secrets.append)
            for _ in range(2):
                await life.run_once()
            await life.close()
    found = {finding.promise: finding for finding in await audit(database_url)}
    assert not [str(finding) for finding in found.values() if finding.broken]
    assert [promise for promise in CHECKS if found[promise].subjects < 2] == []
    assert len({*secrets}) == 2
