"""An acquirer's user against the real edge: its view of its sales agrees with the books."""

from __future__ import annotations

import asyncio
import socket
import stat
from pathlib import Path

import pytest

from actors.network.card_secrets import CardSecrets
from actors.network.cards import cards_by_id
from actors.network.database import NetworkDbConnection
from actors.settings import Settings
from actors.vault import Vault
from loadtests.generators.workload import Card
from loadtests.users.conversation import Conversation, WireError
from loadtests.users.plan import LoadPlan, read_plan, write_plan
from tests.support.api.stack import Installation, installation


async def plastic(running: Installation, card_id: str) -> Card:
    """The card as a terminal reads it."""

    settings = running.services.settings
    connection = NetworkDbConnection(settings.database_dsn, "test")
    (found,) = await cards_by_id(connection, CardSecrets(running.services.vault)).find_all([card_id])
    connection.close()
    assert found is not None
    return Card(card_id, "".join(found.pan), "".join(found.expiry))


async def test_all_actions_of_a_user_are_answered(settings: Settings, vault: Vault) -> None:
    async with installation(settings, vault) as running:
        acme = await running.caller()
        id_ = (await acme.funded_card("100.00"))["id"]
        card = await plastic(running, id_)

        def day() -> None:
            with Conversation(settings.iso8583_host, settings.iso8583_port, "600001") as wire:
                cleared = wire.spend(0, card, 1_000)
                raised = wire.increment(cleared, card, 500)
                assert raised.amount_minor == 1_500
                wire.clear(raised, card)
                wire.reverse(wire.spend(0, card, 2_000), card)
                wire.spend(0, card, 700, refund=True)
                wire.spend(0, card, 300)
                with pytest.raises(WireError, match=r"^0100: response 51$"):
                    wire.spend(0, card, 1_000_000)
                wire.close()
                wire.spend(0, card, 100)  # connects again

        await asyncio.to_thread(day)
        balance = await acme.get(f"/v1/cards/{id_}/balance")
        assert (balance["posted"], balance["held"]) == ("92.00", "4.00")


def test_an_unreachable_edge_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    card = Card("id", "4560000000000004", "2912")
    with Conversation("127.0.0.1", port, "600001") as wire, pytest.raises(WireError) as raised:
        wire.spend(0, card, 100)
    assert str(raised.value) == "0100: ConnectionRefusedError"


def test_a_plan_file_is_private(tmp_path: Path) -> None:
    plan = LoadPlan(
        base_url="http://127.0.0.1:1",
        client_id="c",
        client_secret="s",
        iso8583_host="127.0.0.1",
        iso8583_port=2,
        cards=[Card("id", "4560000000000004", "2912")],
    )
    path = tmp_path / "plan.json"
    write_plan(plan, path)
    assert read_plan(path) == plan
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "4560000000000004" not in repr(plan)
