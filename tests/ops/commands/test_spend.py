"""``stanchion spend``: the decision as text, as JSON, and as exit status."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from actors.settings import Settings
from actors.vault import Vault
from ops.cli.options import NEGATIVE
from ops.commands.spend import SpendError, described, spend, spend_to_paste, spending_card
from stanchion import Client
from stanchion.records import Card, Simulation
from tests.support.ops.commands import Commands, commands

CARD = cast("Card", {"id": "c-1", "last4": "0042"})


@pytest.fixture
async def running(settings: Settings, vault: Vault) -> AsyncIterator[Commands]:
    async with commands(settings, vault) as started:
        yield started


async def test_approved_spend_is_shown_and_has_exit_status_0(running: Commands) -> None:
    card = await running.caller.funded_card("100.00")
    done = await running.run("spend", "12.50", "--card", card["id"], "--merchant", "Book Shop")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("approved: 12.50 EUR at Book Shop\n")
    shown = await running.run("spend", "1.00", "--json")
    decided = json.loads(shown.stdout)
    assert (decided["card_id"], decided["state"], decided["decision"]) == (card["id"], "decided", "approved")


async def test_declined_spend_has_exit_status_3(running: Commands) -> None:
    card = await running.caller.funded_card("1.00")
    done = await running.run("spend", "2.00", "--card", card["id"])
    assert done.exit_code == NEGATIVE == 3
    assert done.stdout.startswith("declined, insufficient_funds: 2.00 EUR at Corner Grocer\n")
    assert "response code  51\n" in done.stdout


async def test_refund_and_other_options_are_sent(running: Commands) -> None:
    card = await running.caller.funded_card("1.00")
    options = ("--kind", "refund", "--channel", "ecommerce", "--mcc", "5942", "--country", "FR")
    done = await running.run("spend", "3.00", "EUR", "--card", card["id"], *options, "--json")
    decided = json.loads(done.stdout)
    assert (decided["kind"], decided["channel"], decided["mcc"]) == ("refund", "ecommerce", "5942")
    assert decided["merchant_country"] == "FR"


async def test_without_a_card_there_is_one_line(running: Commands) -> None:
    done = await running.run("spend", "1.00")
    assert isinstance(done.exception, SpendError)
    assert str(done.exception).startswith("there is no active card")


class FakeClient:
    """A client whose simulation ends in ``last``."""

    def __init__(self, last: dict[str, Any]) -> None:
        self._last = last
        self.simulations = self

    def spend(self, **_fields: Any) -> dict[str, Any]:
        return {"simulation_id": "s-1"}

    def wait(self, id_: str, *, seconds: float) -> dict[str, Any]:
        assert seconds == 5.0
        return self._last | {"simulation_id": id_}


def test_spend_that_fails_before_a_decision_is_an_error() -> None:
    failure = {"stage": "pre_build", "code": "amount", "detail": "too large"}
    client = cast("Client", FakeClient({"decision": None, "failure": failure}))
    with pytest.raises(SpendError, match=r"simulation s-1 has failed: amount: too large"):
        spend(client, {}, seconds=5.0)


def test_partial_approval_shows_both_amounts() -> None:
    simulation = {
        "decision": "approved",
        "amount": {"amount": "50.00", "currency": "EUR"},
        "approved_amount": {"amount": "20.00", "currency": "EUR"},
        "merchant_name": "Grocer",
        "response_code": "10",
        "approval_code": "AB12CD",
        "authorization_id": "a-1",
        "transaction_id": "t-1",
        "simulation_id": "s-1",
    }
    lines = described(cast("Simulation", simulation), CARD)
    assert lines[0] == "approved in part: 20.00 EUR of 50.00 EUR at Grocer"
    assert "  card           c-1 (ends in 0042)" in lines


def test_given_card_is_read_by_its_id() -> None:
    class Cards:
        def get(self, id_: str) -> Any:
            return {"id": id_}

    class WithCards:
        cards = Cards()

    assert spending_card(cast("Client", WithCards()), "c-7")["id"] == "c-7"


@pytest.mark.parametrize(
    ("called", "words"),
    [
        (".venv/bin/stanchion", [".venv/bin/stanchion"]),
        ("/usr/bin/stanchion", ["/usr/bin/stanchion"]),
        ("/src/ops/__main__.py", [sys.executable, "-m", "ops"]),
    ],
)
def test_printed_spend_can_be_pasted(monkeypatch: pytest.MonkeyPatch, called: str, words: list[str]) -> None:
    monkeypatch.setattr(sys, "argv", [called])
    default = Path("var").absolute()
    assert shlex.split(spend_to_paste("c-1", "20.00", default)) == [*words, "spend", "20.00", "--card", "c-1"]
    elsewhere = shlex.split(spend_to_paste("c-1", "20.00", Path("/tmp/a b")))
    assert elsewhere[-2:] == ["--var", "/tmp/a b"]
