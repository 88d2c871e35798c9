"""``stanchion spend``: one simulated spend over the test network, up to its decision."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any, Final

from ops.commands.tables import facts, money_text
from stanchion import Client
from stanchion.records import Card, Simulation

DEFAULT_VAR: Final = Path("var")


class SpendError(Exception):
    """The spend cannot be sent, or ended without a decision. The message is one line."""


def spending_card(client: Client, card_id: str | None = None, programme_id: str | None = None) -> Card:
    """The card with ``card_id``, or the newest active card, of ``programme_id`` if it is given. Raises
    SpendError, and StanchionError when the card is unknown."""
    if card_id is not None:
        return client.cards.get(card_id)
    for card in client.cards.list(programme_id=programme_id, state="active", page_size=1):
        return card
    raise SpendError("there is no active card: create one as ops/docs/guides/cards.md shows")


def spend(client: Client, fields: dict[str, Any], *, seconds: float) -> Simulation:
    """Send the spend and wait for its decision. Raises SpendError when it fails before a decision, and
    StanchionError, also when there is no decision within ``seconds``."""
    accepted = client.simulations.spend(**fields)
    decided = client.simulations.wait(accepted["simulation_id"], seconds=seconds)
    if decided["decision"] is None:
        failure = decided["failure"]
        reason = "no reason is known" if failure is None else f"{failure['code']}: {failure['detail']}"
        raise SpendError(f"simulation {decided['simulation_id']} has failed: {reason}")
    return decided


def described(simulation: Simulation, card: Card) -> list[str]:
    """The decision for people."""
    partial = simulation["approved_amount"]
    asked = f"{money_text(simulation['amount'])} at {simulation['merchant_name']}"
    if simulation["decision"] == "approved" and partial is not None and partial != simulation["amount"]:
        headline = f"approved in part: {money_text(partial)} of {asked}"
    elif simulation["decision"] == "approved":
        headline = f"approved: {asked}"
    else:
        headline = f"declined, {simulation['decline_reason']}: {asked}"
    return [
        headline,
        *facts(
            (
                ("card", f"{card['id']} (ends in {card['last4']})"),
                ("response code", simulation["response_code"]),
                ("approval code", simulation["approval_code"]),
                ("authorization", simulation["authorization_id"]),
                ("transaction", simulation["transaction_id"]),
                ("simulation", simulation["simulation_id"]),
            )
        ),
    ]


def spend_to_paste(card_id: str, amount: str, var_dir: Path) -> str:
    """The command line of a spend with ``card_id``, for this installation."""
    words = [*_this_command(), "spend", amount, "--card", card_id]
    if var_dir != DEFAULT_VAR.absolute():
        words += ["--var", str(var_dir)]
    return shlex.join(words)


def _this_command() -> list[str]:
    """How this process was called: by the script, or as a module."""
    called = Path(sys.argv[0])
    return [sys.executable, "-m", "ops"] if called.suffix == ".py" else [str(called)]
