"""What the demo tells, chapter by chapter. Each sentence that names an amount or an answer was checked."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.table import Table

from ops.demo.client import Api, DemoError, Json, eur, expect


class Story:
    """One card from its issue to the next day."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._card_id = ""
        self._sale: Json = {}

    async def first_day(self, api: Api) -> None:
        """From nothing to a sale that is settled, and everything that can be refused on the way."""
        await self._issue(api)
        await self._approved(api)
        await self._declined(api)
        await self._rest_of_the_sale(api)
        await self._other_kinds(api)
        await self._told(api)

    async def _issue(self, api: Api) -> None:
        self._title("A programme, a product, a cardholder, a card")
        self._say("signed in as the tenant `demo`, in test mode")
        programme = await api.call("POST", "/v1/programs", {"name": "Demo", "currency": "EUR"}, status=201)
        self._say(f"programme {programme['id']}: {programme['mode']}, {programme['currency']}")
        product = await api.call(
            "POST",
            "/v1/card-products",
            {
                "programme_id": programme["id"],
                "name": "Everyday",
                "network": "visa",
                "currency": "EUR",
                "form_factor": "virtual",
                "iin": "45600000",
                "control_defaults": [
                    {"kind": "mcc_deny", "values": ["7995"]},
                    {"kind": "per_txn_cap", "amount": "200.00"},
                ],
            },
            status=201,
        )
        self._say(f"product {product['id']}: no gambling, at most 200.00 a transaction")
        person = {"given_name": "Ada", "family_name": "Byron", "email": "ada@example.com"}
        holder = await api.call(
            "POST", "/v1/cardholders", {"programme_id": programme["id"]} | person, status=201
        )
        card = await api.call(
            "POST", "/v1/cards", {"card_product_id": product["id"], "cardholder_id": holder["id"]}, status=201
        )
        self._card_id = card["id"]
        expect("state of a new virtual card", card["state"], "active")
        self._say(f"card {card['id']}: {card['iin']}…{card['last4']}, active; its number is never shown")
        loaded = await api.call(
            "POST", "/v1/simulated-loads", {"card_id": card["id"], "amount": eur("100.00")}, status=201
        )
        expect("available after the load", loaded["available"], "100.00")
        self._say("100.00 EUR loaded")

    async def _approved(self, api: Api) -> None:
        self._title("A spend, over ISO 8583 to a durable decision")
        self._sale = await self._spend(api, "42.50", "5462", "Corner Bakery")
        expect("decision", self._sale["decision"], "approved")
        self._say(
            f"42.50 at Corner Bakery: approved; STAN {self._sale['stan']}, RRN {self._sale['rrn']},"
            f" response {self._sale['response_code']}, approval code {self._sale['approval_code']}"
        )
        self._say("a hold keeps the money until the merchant presents the sale:")
        await self._balance(api, posted="100.00", held="42.50", available="57.50")

    async def _declined(self, api: Api) -> None:
        self._title("Refused, each time for one reason that is kept")
        for amount, mcc, merchant, reason in (
            ("60.00", "5732", "Gadget Shop", "insufficient_funds"),
            ("250.00", "5732", "Gadget Shop", "per_txn_cap_exceeded"),
            ("5.00", "7995", "Lucky Casino", "mcc_not_allowed"),
        ):
            spend = await self._spend(api, amount, mcc, merchant)
            expect("decision", (spend["decision"], spend["decline_reason"]), ("declined", reason))
            self._say(f"{amount} at {merchant}: declined, {reason} (response {spend['response_code']})")
        self._say("the casino's trace: every rule in order, what it saw, and what it held that against:")
        await self._explained(api, spend["transaction_id"], failing="mcc_deny")
        card = f"/v1/cards/{self._card_id}"
        await api.call("PATCH", card, {"state": "suspended"})
        body = self._spend_body("1.00", "5462", "Corner Bakery")
        await api.call("POST", "/v1/simulated-spends", body, status=409)
        await api.call("PATCH", card, {"state": "active"})
        self._say("a suspended card is not even tried (409); it is active again")
        await self._balance(api, posted="100.00", held="42.50", available="57.50")

    async def _explained(self, api: Api, transaction_id: str, *, failing: str | None) -> None:
        transaction = await api.call("GET", f"/v1/transactions/{transaction_id}")
        failed = [step["rule"] for step in transaction["trace"] if step["outcome"] == "fail"]
        expect("rules that failed", failed, [failing] if failing else [])
        table = Table("rule", "outcome", "observed", "limit", box=None)
        for step in transaction["trace"]:
            seen = (str(step.get(name) or "") for name in ("observed", "limit"))
            table.add_row(step["rule"], step["outcome"], *seen)
        self._console.print(table)

    async def _rest_of_the_sale(self, api: Api) -> None:
        self._title("The rest of the bakery's sale: raised, lowered, presented")
        sale = f"/v1/simulated-spends/{self._sale['simulation_id']}"
        await api.simulate(f"{sale}/increment", {"raise_by_amount": eur("10.00")})
        self._say("one more cake: an increment raises the hold by 10.00")
        await self._balance(api, posted="100.00", held="52.50", available="47.50")
        await api.simulate(f"{sale}/reverse", {"lower_by_amount": eur("2.50")})
        self._say("a bun was not fresh: a partial reversal lowers it by 2.50")
        await self._balance(api, posted="100.00", held="50.00", available="50.00")
        await api.simulate(f"{sale}/clear", {"amount": eur("50.00")})
        self._say("the merchant presents 50.00: the hold is captured, the money leaves the card")
        await self._balance(api, posted="50.00", held="0.00", available="50.00")
        transaction = await api.call("GET", f"/v1/transactions/{self._sale['transaction_id']}")
        expect("status of the sale", transaction["status"], "cleared")
        again = await api.call("POST", f"/v1/transactions/{self._sale['transaction_id']}/replay", {})
        expect("the decision, made again", again["identical"], True)
        self._say("decided again from its stored inputs, the first decision is the same to the byte")

    async def _other_kinds(self, api: Api) -> None:
        self._title("A partial approval, a refund, an account verification")
        partial = await self._spend(api, "80.00", "5541", "Fuel Station", scenario="partial_approval")
        expect(
            "partial approval", (partial["response_code"], partial["approved_amount"]), ("10", eur("50.00"))
        )
        self._say("80.00 of fuel, and a terminal that takes part of it: 50.00 approved (response 10)")
        await self._balance(api, posted="50.00", held="50.00", available="0.00")
        refund = await self._spend(api, "20.00", "5732", "Gadget Shop", kind="refund")
        expect("refund", (refund["decision"], refund["hold_id"]), ("approved", None))
        self._say("20.00 back from Gadget Shop: posted at once, no hold")
        await self._balance(api, posted="70.00", held="50.00", available="20.00")
        verification = await self._spend(api, "0.00", "5816", "Music Service")
        expect("verification", verification["response_code"], "85")
        self._say("0.00 at Music Service: the account is verified (response 85)")

    async def _told(self, api: Api) -> None:
        self._title("What customers are told")
        events = (await api.call("GET", "/v1/events?limit=100"))["data"]
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
        self._say(f"{len(events)} events, each written in the transaction of its cause: {', '.join(kinds)}")

    async def after_the_kill(self, api: Api) -> None:
        """The next spend is answered, and nothing has been lost."""
        started = time.monotonic()
        spend = await self._spend(api, "5.00", "5462", "Corner Bakery")
        expect("decision", spend["decision"], "approved")
        self._say(f"5.00 at Corner Bakery: approved {time.monotonic() - started:.1f} s later")
        await self._balance(api, posted="70.00", held="55.00", available="15.00")

    async def second_day(self, api: Api) -> None:
        """After a restart the card is as it was, and spends again."""
        await self._balance(api, posted="70.00", held="55.00", available="15.00")
        spend = await self._spend(api, "15.00", "5411", "Grocer")
        expect("decision", spend["decision"], "approved")
        self._say("the rest is spent: 15.00 at Grocer approved")
        await self._balance(api, posted="70.00", held="70.00", available="0.00")

    async def _balance(self, api: Api, **promised: str) -> None:
        """Show the card's balance and check it."""
        balance = await api.call("GET", f"/v1/cards/{self._card_id}/balance")
        expect("balance", {name: balance[name] for name in promised}, promised)
        self._say("balance: " + ", ".join(f"{name} {amount}" for name, amount in promised.items()))

    async def _spend(self, api: Api, amount: str, mcc: str, merchant: str, **fields: Any) -> Json:
        """One simulated spend, followed until it is decided."""
        return await api.simulate("/v1/simulated-spends", self._spend_body(amount, mcc, merchant) | fields)

    def _spend_body(self, amount: str, mcc: str, merchant: str) -> Json:
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

    def _say(self, text: str) -> None:
        self._console.print(f"  {text}", markup=False)
