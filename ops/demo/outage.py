"""The chapter about a programme with its own decision endpoint: the endpoint fails, and the platform stands
in."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from engine.money import format_minor
from ops.commands.decide import DecisionEndpoint, declare
from ops.demo.checks import DemoError, eur, expect
from ops.demo.endpoint import answering
from ops.demo.story import decided, transaction_of
from stanchion import Client
from stanchion.inputs import SpendFields

DECISION_TIMEOUT_MS: Final = 3_000
"""Generous for a local endpoint, so that no answer is late by accident."""
RECOVERY_SECONDS_MAX: Final = 15.0


class Outage:
    """One programme, two cards, one outage. ``var_dir``: the installation's, for its authority."""

    def __init__(self, console: Console, var_dir: Path) -> None:
        self._console = console
        self._var_dir = var_dir
        self._programme_id = ""
        self._cards: dict[str, str] = {}

    def run(self, api: Client) -> None:
        """From the programme's own answers through an outage to the report."""
        endpoint = DecisionEndpoint(Console(quiet=True), "approve")
        with answering(self._var_dir, endpoint.handle) as url:
            self._create(api, f"{url}/decide", endpoint)
            self._programme_decides(api, endpoint)
            endpoint.behaviour = "down"
            self._is_stood_in_for(api)
            endpoint.behaviour = "approve"
            self._recovers(api)
            # No request may be sent to an address once another program can get it.
            api.programs.update(self._programme_id, decisioning="platform")
        self._reported(api)

    def _create(self, api: Client, url: str, endpoint: DecisionEndpoint) -> None:
        self._title("A programme that decides at its own endpoint")
        programme = api.programs.create(
            name="Own decisions",
            currency="EUR",
            decisioning="delegated",
            decision_url=url,
            decision_timeout_ms=DECISION_TIMEOUT_MS,
        )
        self._programme_id, endpoint.secret = programme["id"], programme["decision_secret"]
        self._print(f"each authorization goes to {url}, signed with the programme's secret")
        policy = api.programs.set_stip_policy(
            self._programme_id,
            mode="approve_within_limits",
            max_amount="40.00",
            max_total_exposure=eur("100.00"),
        )
        expect("mode of the policy", policy["mode"], "approve_within_limits")
        self._print("if it fails, the platform may approve at most 40.00 per spend and 100.00 per outage,")
        for name, declared in (("first", "60.00"), ("second", "500.00")):
            self._cards[name] = self._new_card(api, declared)
        self._print("and on each card its declared balance: 60.00 on the first, 500.00 on the second")

    def _new_card(self, api: Client, declared: str) -> str:
        product = api.card_products.create(
            programme_id=self._programme_id,
            name="Own decisions",
            network="mastercard",
            currency="EUR",
            form_factor="virtual",
            iin="52100000",
        )
        holder = api.cardholders.create(
            programme_id=self._programme_id,
            given_name="Grace",
            family_name="Hopper",
            email="grace@example.com",
        )
        card = api.cards.create(card_product_id=product["id"], cardholder_id=holder["id"])
        api.cards.load(card["id"], eur("1000.00"))
        declare(api, card["id"], declared)
        return card["id"]

    def _programme_decides(self, api: Client, endpoint: DecisionEndpoint) -> None:
        self._spends(api, "first", "25.00", "programme", None)
        endpoint.behaviour = "decline"
        self._spends(api, "first", "25.00", "programme", "programme_declined")

    def _is_stood_in_for(self, api: Client) -> None:
        self._title("Its endpoint is down, and the platform stands in")
        self._spends(api, "first", "40.00", "stand_in", None)
        self._spends(api, "first", "40.01", "stand_in", "max_amount_exceeded")
        self._spends(api, "first", "30.00", "stand_in", "declared_balance_exceeded")
        self._spends(api, "second", "40.00", "stand_in", None)
        self._spends(api, "second", "30.00", "stand_in", "max_total_exposure_exceeded")
        self._spends(api, "second", "20.00", "stand_in", None)

    def _recovers(self, api: Client) -> None:
        self._title("The endpoint answers again: the outage ends, and the budget is full again")
        deadline = time.monotonic() + RECOVERY_SECONDS_MAX
        self._spends(api, "second", "30.00", "programme", None)
        while not (finished := list(api.events.list(types=["authorization.stip_outage.finished"]))):
            # A host that does not know of the outage yet cannot end it; the next answer does.
            if time.monotonic() > deadline:
                raise DemoError("the outage did not end")
            decided(api, api.simulations.spend(**self._fields("second", "0.10")))
        [event] = finished
        expect("programme of the outage", event["data"]["programme_id"], self._programme_id)
        self._print(f"{event['type']}: ended at {event['data']['ended_at']}, one event")

    def _reported(self, api: Client) -> None:
        self._print("the report of the platform's stand-in decisions:")
        now = datetime.now(UTC)
        begin, end = ((now + timedelta(hours=hours)).isoformat(timespec="seconds") for hours in (-1, 1))
        report = list(api.programs.stip_activity(self._programme_id, begin, end))
        rules = [entry["rule"] for entry in reversed(report)]
        expect(
            "rules that fired",
            rules,
            [
                "within_ceilings",
                "max_amount_exceeded",
                "declared_balance_exceeded",
                "within_ceilings",
                "max_total_exposure_exceeded",
                "within_ceilings",
            ],
        )
        expect("exposure", sum(int(entry["exposure_minor"]) for entry in report), 10_000)
        table = Table("at", "amount, EUR", "decision", "rule", "exposure, EUR", "budget used, EUR", box=None)
        for entry in report:
            used = f"{_euros(entry['budget_used_minor'])} of {_euros(entry['budget_limit_minor'])}"
            row = (entry["decided_at"][11:19], entry["amount"], entry["decision"], entry["rule"])
            table.add_row(*row, _euros(entry["exposure_minor"]), used)
        self._console.print(table)

    def _spends(self, api: Client, card: str, amount: str, decider: str, reason: str | None) -> None:
        """One spend; ``reason``: the programme's reason, or the stand-in rule that declined."""
        spend = decided(api, api.simulations.spend(**self._fields(card, amount)))
        transaction = api.transactions.get(transaction_of(spend))
        expect("who decided", transaction["decided_by"], decider)
        refusing = transaction["decline_reason"]
        if refusing == "stand_in_declined":
            refusing = next(step["observed"] for step in transaction["trace"] if step["rule"] == "stand_in")
        expect(f"{amount} on the {card} card", refusing, reason)
        outcome = "approved" if reason is None else f"declined, {reason} (response {spend['response_code']})"
        self._print(f"{amount} on the {card} card: {outcome}, by {decider}")

    def _fields(self, card: str, amount: str) -> SpendFields:
        return {
            "card_id": self._cards[card],
            "amount": eur(amount),
            "mcc": "5411",
            "merchant_name": "Grocer",
            "channel": "pos",
        }

    def _title(self, text: str) -> None:
        self._console.print(f"\n[bold]{text}[/bold]")

    def _print(self, text: str) -> None:
        self._console.print(f"  {text}", markup=False)


def _euros(minor: str | int | None) -> str:
    """Cents as the API writes amounts: ``20.00``; ``any`` for no limit."""
    return "any" if minor is None else format_minor(int(minor))
