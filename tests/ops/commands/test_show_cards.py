"""``stanchion cards show-test``: the data of test cards work on the wire, and live cards are refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from psec.cvv import generate_cvv
from typer.testing import CliRunner, Result

from actors.ids import new_id
from actors.settings import Settings
from actors.vault import Vault
from engine.pan import luhn_valid
from ops.cli import app
from ops.commands.show_cards import ShowCardsError, show_test
from ops.expected_failures import EXPECTED_FAILURES
from tests.support.api.stack import Installation, installation


@pytest.fixture
async def running(settings: Settings, vault: Vault) -> AsyncIterator[Installation]:
    async with installation(settings, vault) as started:
        yield started


async def stanchion(settings: Settings, *arguments: str) -> Result:
    """Run a command on the installation of ``settings``."""
    environment = {"STANCHION_DATABASE_URL": settings.database_dsn, "STANCHION_REDIS_URL": settings.redis_dsn}
    command = ["cards", "show-test", *arguments, "--var", str(settings.var_dir)]
    return await asyncio.to_thread(lambda: CliRunner().invoke(app, command, env=environment))


@pytest.mark.filterwarnings("ignore")  # psec uses ciphers that its dependency has deprecated
async def test_cards_are_shown_by_id_and_by_programme(
    running: Installation, settings: Settings, vault: Vault
) -> None:
    caller = await running.caller()
    programme = await caller.programme()
    product, holder = await caller.product(programme), await caller.cardholder(programme)
    made = [await caller.card(product, holder) for _ in range(3)]
    ids = [card["id"] for card in made]
    shown = await show_test(settings.database_dsn, vault, [ids[2], ids[0].upper(), ids[2]])
    assert [each.card_id for each in shown] == [ids[2], ids[0]]
    everything = await show_test(settings.database_dsn, vault, programme_id=programme["id"])
    assert [each.card_id for each in everything] == sorted(ids)
    for each, card in zip(everything, sorted(made, key=lambda card: card["id"]), strict=True):
        assert luhn_valid(each.pan)
        assert each.pan[-4:] == card["last4"]
        assert (each.exp_month, each.exp_year) == (card["exp_month"], card["exp_year"])
        expiry = f"{each.exp_year % 100:02d}{each.exp_month:02d}"
        cvk = vault.cvk_pair("1")
        assert each.cvv2 == generate_cvv(cvk, each.pan, expiry, "000")
        assert each.track2 == f"{each.pan}={expiry}20100000{generate_cvv(cvk, each.pan, expiry, '201')}00000"
        assert repr(each) == f"ShownCard(card_id='{each.card_id}')"


async def test_command_prints_json_or_lines(running: Installation, settings: Settings) -> None:
    caller = await running.caller()
    card = await caller.funded_card()
    printed = await stanchion(settings, card["id"], "--json")
    assert printed.exit_code == 0, printed.output
    (shown,) = json.loads(printed.stdout)
    assert list(shown) == ["card_id", "pan", "exp_month", "exp_year", "track2", "cvv2"]
    lines = (await stanchion(settings, "--programme", card["programme_id"])).stdout.splitlines()
    expiry = f"{shown['exp_month']:02d}/{shown['exp_year']}"
    assert lines == [f"{card['id']}  {shown['pan']}  {expiry}  {shown['cvv2']}  {shown['track2']}"]


async def test_live_cards_are_refused(running: Installation, settings: Settings, vault: Vault) -> None:
    test, live = await running.caller(), await running.caller(mode="live")
    allowed, programme = await test.funded_card(), await live.programme()
    refused = await live.card(await live.product(programme), await live.cardholder(programme))
    table: list[dict[str, Any]] = [
        {"card_ids": [allowed["id"], refused["id"]]},
        {"programme_id": programme["id"]},
    ]
    for arguments in table:
        with pytest.raises(ShowCardsError, match="live") as failure:
            await show_test(settings.database_dsn, vault, **arguments)
        # An identifier can contain the same digits.
        assert refused["last4"] not in str(failure.value).replace(refused["id"], "")
    printed = await stanchion(settings, refused["id"])
    assert printed.exit_code == 1
    assert isinstance(printed.exception, ShowCardsError)
    assert printed.stdout == ""


async def test_unusable_arguments_are_refused_without_repeating_them(
    running: Installation, settings: Settings, vault: Vault
) -> None:
    number = "4111111111111111"
    table: list[dict[str, Any]] = [
        {},
        {"card_ids": [new_id(1)], "programme_id": new_id(1)},
        {"card_ids": [number]},
        {"card_ids": [new_id(1)]},
        {"programme_id": number},
        {"programme_id": new_id(1)},
    ]
    for arguments in table:
        with pytest.raises(ShowCardsError) as failure:
            await show_test(settings.database_dsn, vault, **arguments)
        assert number not in str(failure.value)
    assert issubclass(ShowCardsError, EXPECTED_FAILURES)
