"""The demo's chapters. Every amount and answer in the commentary was checked."""

from __future__ import annotations

import time

from rich.console import Console
from rich.table import Table

from ops.demo.checks import DemoError, eur, expect
from ops.demo.identity import verify
from stanchion import Client, ConflictError
from stanchion.inputs import SpendFields
from stanchion.records import Acceptance, FollowUp, Simulation


class Story:
    """One card from its issue to the next day."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._card_id = ""
        self._sale: Simulation | None = None

    def first_day(self, api: Client) -> None:
        """From an empty installation to a cleared sale, with every kind of decline."""
        self._issue(api)
        self._approved(api)
        self._declined(api)
        self._rest_of_the_sale(api)
        self._other_kinds(api)
        self._title("A cardholder with identity verification")
        verify(api, self._print)
        self._events(api)

    def _issue(self, api: Client) -> None:
        self._title("A programme, a product, a cardholder, a card")
        self._print("signed in as the tenant `demo`, in test mode")
        programme = api.programs.create(name="Demo", currency="EUR")
        self._print(f"programme {programme['id']}: {programme['mode']}, {programme['currency']}")
        product = api.card_products.create(
            programme_id=programme["id"],
            name="Everyday",
            network="visa",
            currency="EUR",
            form_factor="virtual",
            iin="45600000",
            control_defaults=[
                {"kind": "mcc_deny", "values": ["7995"]},
                {"kind": "per_txn_cap", "amount": "200.00"},
            ],
        )
        self._print(f"product {product['id']}: no gambling, at most 200.00 a transaction")
        holder = api.cardholders.create(
            programme_id=programme["id"], given_name="Ada", family_name="Byron", email="ada@example.com"
        )
        card = api.cards.create(card_product_id=product["id"], cardholder_id=holder["id"])
        self._card_id = card["id"]
        expect("state of a new virtual card", card["state"], "active")
        self._print(f"card {card['id']}: {card['iin']}…{card['last4']}, active; its number is never shown")
        loaded = api.cards.load(card["id"], eur("100.00"))
        expect("available after the load", loaded["available"], "100.00")
        self._print("100.00 EUR loaded")

    def _approved(self, api: Client) -> None:
        self._title("A spend, over ISO 8583 to a durable decision")
        self._sale = self._spend(api, "42.50", "5462", "Corner Bakery")
        expect("decision", self._sale["decision"], "approved")
        self._print(
            f"42.50 at Corner Bakery: approved; STAN {self._sale['stan']}, RRN {self._sale['rrn']},"
            f" response {self._sale['response_code']}, approval code {self._sale['approval_code']}"
        )
        self._print("a hold reserves the amount until the merchant presents the sale:")
        self._balance(api, posted="100.00", held="42.50", available="57.50")

    def _declined(self, api: Client) -> None:
        self._title("Declines, each with one recorded reason")
        for amount, mcc, merchant, reason in (
            ("60.00", "5732", "Gadget Shop", "insufficient_funds"),
            ("250.00", "5732", "Gadget Shop", "per_txn_cap_exceeded"),
            ("5.00", "7995", "Lucky Casino", "mcc_not_allowed"),
        ):
            spend = self._spend(api, amount, mcc, merchant)
            expect("decision", (spend["decision"], spend["decline_reason"]), ("declined", reason))
            self._print(f"{amount} at {merchant}: declined, {reason} (response {spend['response_code']})")
        self._print("the casino's trace: every rule in order, the observed value and the limit:")
        self._explained(api, spend, failing="mcc_deny")
        api.cards.update(self._card_id, state="suspended")
        try:
            api.simulations.spend(**self._spend_fields("1.00", "5462", "Corner Bakery"))
        except ConflictError as refused:
            expect("the refusal of a suspended card", refused.slug, "card-not-active")
        else:
            raise DemoError("a spend on a suspended card was accepted")
        api.cards.update(self._card_id, state="active")
        self._print("a simulated spend on a suspended card is refused (409); the card is active again")
        self._balance(api, posted="100.00", held="42.50", available="57.50")

    def _explained(self, api: Client, spend: Simulation, *, failing: str) -> None:
        transaction = api.transactions.get(transaction_of(spend))
        failed = [step["rule"] for step in transaction["trace"] if step["outcome"] == "fail"]
        expect("rules that failed", failed, [failing])
        table = Table("rule", "outcome", "observed", "limit", box=None)
        for step in transaction["trace"]:
            table.add_row(step["rule"], step["outcome"], step["observed"] or "", step["limit"] or "")
        self._console.print(table)

    def _rest_of_the_sale(self, api: Client) -> None:
        self._title("The follow-ups of the bakery's sale: increment, partial reversal, presentment")
        assert self._sale is not None, "the first chapters have run"
        sale_id, transaction_id = self._sale["simulation_id"], transaction_of(self._sale)
        decided(api, api.simulations.increment(sale_id, eur("10.00")))
        self._print("one more cake: an increment raises the hold by 10.00")
        self._balance(api, posted="100.00", held="52.50", available="47.50")
        decided(api, api.simulations.reverse(sale_id, eur("2.50")))
        self._print("a bun was not fresh: a partial reversal lowers it by 2.50")
        self._balance(api, posted="100.00", held="50.00", available="50.00")
        decided(api, api.simulations.clear(sale_id, eur("50.00")))
        self._print("the merchant presents 50.00: the hold is captured, and the amount is posted")
        self._balance(api, posted="50.00", held="0.00", available="50.00")
        expect("status of the sale", api.transactions.get(transaction_id)["status"], "cleared")
        expect("the replay of the decision", api.transactions.replay(transaction_id)["identical"], True)
        self._print("replayed from its stored inputs, the first decision is identical, byte for byte")

    def _other_kinds(self, api: Client) -> None:
        self._title("A partial approval, a refund, an account verification")
        fuel = self._spend_fields("80.00", "5541", "Fuel Station")
        fuel["scenario"] = "partial_approval"
        partial = decided(api, api.simulations.spend(**fuel))
        expect(
            "partial approval", (partial["response_code"], partial["approved_amount"]), ("10", eur("50.00"))
        )
        self._print("80.00 of fuel, partial approval accepted: 50.00 approved (response 10)")
        self._balance(api, posted="50.00", held="50.00", available="0.00")
        gadget = self._spend_fields("20.00", "5732", "Gadget Shop")
        gadget["kind"] = "refund"
        refund = decided(api, api.simulations.spend(**gadget))
        expect("refund", (refund["decision"], refund["hold_id"]), ("approved", None))
        self._print("20.00 back from Gadget Shop: posted at once, no hold")
        self._balance(api, posted="70.00", held="50.00", available="20.00")
        verification = self._spend(api, "0.00", "5816", "Music Service")
        expect("verification", verification["response_code"], "85")
        self._print("0.00 at Music Service: the account is verified (response 85)")

    def _events(self, api: Client) -> None:
        self._title("Events for customers")
        events = list(api.events.list())
        kinds = sorted({event["type"] for event in events})
        promised = {
            "card.created",
            "authorization.decided",
            "ledger.hold.created",
            "ledger.hold.captured",
            "ledger.entry.posted",
        }
        if not promised <= set(kinds):
            raise DemoError(f"events are missing: {', '.join(sorted(promised - set(kinds)))}")
        self._print(f"{len(events)} events, each committed together with its decision: {', '.join(kinds)}")

    def after_the_kill(self, api: Client) -> None:
        """The next spend is answered, and no data is lost."""
        started = time.monotonic()
        spend = self._spend(api, "5.00", "5462", "Corner Bakery")
        expect("decision", spend["decision"], "approved")
        self._print(f"5.00 at Corner Bakery: approved {time.monotonic() - started:.1f} s later")
        self._balance(api, posted="70.00", held="55.00", available="15.00")

    def second_day(self, api: Client) -> None:
        """After a restart the card is unchanged and can spend."""
        self._balance(api, posted="70.00", held="55.00", available="15.00")
        spend = self._spend(api, "15.00", "5411", "Grocer")
        expect("decision", spend["decision"], "approved")
        self._print("the rest is spent: 15.00 at Grocer approved")
        self._balance(api, posted="70.00", held="70.00", available="0.00")

    def _balance(self, api: Client, *, posted: str, held: str, available: str) -> None:
        """Check and show the card's balance."""
        balance = api.cards.balance(self._card_id)
        seen = (balance["posted"], balance["held"], balance["available"])
        expect("balance", seen, (posted, held, available))
        self._print(f"balance: posted {posted}, held {held}, available {available}")

    def _spend(self, api: Client, amount: str, mcc: str, merchant: str) -> Simulation:
        """One simulated spend, followed until it is decided."""
        return decided(api, api.simulations.spend(**self._spend_fields(amount, mcc, merchant)))

    def _spend_fields(self, amount: str, mcc: str, merchant: str) -> SpendFields:
        return {
            "card_id": self._card_id,
            "amount": eur(amount),
            "mcc": mcc,
            "merchant_name": merchant,
            "channel": "pos",
            "entry_mode": "contactless",
        }

    def _title(self, text: str) -> None:
        self._console.print(f"\n[bold]{text}[/bold]")

    def _print(self, text: str) -> None:
        self._console.print(f"  {text}", markup=False)


def decided(api: Client, accepted: Acceptance | FollowUp) -> Simulation:
    """The record of a simulation once its answer has come back over the wire."""
    simulation = api.simulations.wait(accepted["simulation_id"])
    expect("state of the simulation", simulation["state"], "decided")
    return simulation


def transaction_of(simulation: Simulation) -> str:
    """The transaction of a simulation."""
    if simulation["transaction_id"] is None:
        raise DemoError("a decided simulation has no transaction")
    return simulation["transaction_id"]
