"""The whole journey of a card on one machine, with a live commentary: ``stanchion demo``.

It starts an installation of its own on free ports, uses nothing but the public API, checks every answer it
shows, and ends with exit status 0 only if all of them were right.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from uuid import uuid4

import aiohttp
from rich.console import Console
from rich.table import Table

from ops.running import RunningInstallation

DECISION_SECONDS_MAX: Final = 20.0
# The second day must find the balances of the first: the simulated network presents nothing by itself.
SETTINGS: Final = {"STANCHION_AUTO_CLEAR_SECONDS": "0"}

Json = dict[str, Any]


class DemoError(Exception):
    """An answer was not the promised one. The message is one line."""


def eur(amount: str) -> Json:
    """A Money object in euros."""
    return {"amount": amount, "currency": "EUR"}


def expect(fact: str, seen: object, promised: object) -> None:
    """Raise DemoError unless ``seen`` is what was ``promised``."""
    if seen != promised:
        raise DemoError(f"{fact}: {seen!r} where {promised!r} was promised")


@dataclass
class Api:
    """One API client of the demo tenant, with its token."""

    session: aiohttp.ClientSession
    token: str

    @classmethod
    async def sign_in(cls, session: aiohttp.ClientSession, client: Json) -> Api:
        """Trade the client's credentials for a token (OAuth 2.0 client credentials)."""
        form = {"grant_type": "client_credentials"} | {
            name: client[name] for name in ("client_id", "client_secret")
        }
        async with session.post("/v1/oauth/token", data=form) as answer:
            expect("status of the token request", answer.status, 200)
            return cls(session, (await answer.json())["access_token"])

    async def call(self, method: str, path: str, body: Json | None = None, *, status: int = 200) -> Json:
        """One request; every change carries a fresh idempotency key. Raises DemoError on another status."""
        headers = {"Authorization": f"Bearer {self.token}"}
        if method in ("POST", "PUT") and path != "/v1/simulated-spends":
            headers["Idempotency-Key"] = str(uuid4())
        async with self.session.request(method, path, json=body, headers=headers) as answer:
            content: Json = await answer.json(content_type=None)
            if answer.status != status:
                detail = content.get("detail") or content.get("title")
                raise DemoError(f"{method} {path}: {answer.status} ({detail}) where {status} was promised")
            return content


class Journey:
    """The story: set up, spend, be refused, explain, survive a restart."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._card_id = ""

    async def first_day(self, api: Api) -> None:
        """From nothing to a spend that is approved, and three that are not."""
        await self._issue(api)
        transaction_id = await self._approved(api)
        await self._declined(api)
        await self._explained(api, transaction_id)

    async def _issue(self, api: Api) -> None:
        self._title("A programme, a product, a cardholder, a card")
        programme = await api.call("POST", "/v1/programs", {"name": "Demo", "currency": "EUR"}, status=201)
        self._say(f"programme {programme['id']}: managed, {programme['currency']}")
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
        holder = await api.call(
            "POST",
            "/v1/cardholders",
            {
                "programme_id": programme["id"],
                "given_name": "Ada",
                "family_name": "Byron",
                "email": "ada@example.com",
            },
            status=201,
        )
        card = await api.call(
            "POST", "/v1/cards", {"card_product_id": product["id"], "cardholder_id": holder["id"]}, status=201
        )
        self._card_id = card["id"]
        expect("state of a new virtual card", card["state"], "active")
        self._say(
            f"card {card['id']}: {card['iin']}…{card['last4']}, {card['state']}; its number is never shown"
        )
        loaded = await api.call(
            "POST", "/v1/simulated-loads", {"card_id": card["id"], "amount": eur("100.00")}, status=201
        )
        expect("available after the load", loaded["available"], "100.00")
        self._say("100.00 EUR loaded")

    async def _approved(self, api: Api) -> str:
        self._title("A spend, over ISO 8583 to a durable decision")
        spend = await self._spend(api, "42.50", "5462", "Corner Bakery")
        expect("decision", spend["decision"], "approved")
        self._say(
            f"approved: STAN {spend['stan']}, RRN {spend['rrn']}, response {spend['response_code']},"
            f" approval code {spend['approval_code']}"
        )
        await self.balance(api, posted="100.00", held="42.50", available="57.50")
        return str(spend["transaction_id"])

    async def _declined(self, api: Api) -> None:
        self._title("Three that are refused, each for its own reason")
        for amount, mcc, merchant, reason in (
            ("60.00", "5732", "Gadget Shop", "insufficient_funds"),
            ("5.00", "7995", "Lucky Casino", "mcc_not_allowed"),
            ("250.00", "5732", "Gadget Shop", "per_txn_cap_exceeded"),
        ):
            spend = await self._spend(api, amount, mcc, merchant)
            expect("decision", (spend["decision"], spend["decline_reason"]), ("declined", reason))
            self._say(f"{amount} at {merchant}: declined, {reason} (response {spend['response_code']})")
        await self.balance(api, posted="100.00", held="42.50", available="57.50")
        card = f"/v1/cards/{self._card_id}"
        await api.call("PATCH", card, {"state": "suspended"})
        body = self._spend_body("1.00", "5462", "Corner Bakery")
        await api.call("POST", "/v1/simulated-spends", body, status=409)
        self._say("suspended: the card is not even tried (409)")
        await api.call("PATCH", card, {"state": "active"})

    async def _explained(self, api: Api, transaction_id: str) -> None:
        self._title("Why it was approved: every rule, what it saw, and its limit")
        transaction = await api.call("GET", f"/v1/transactions/{transaction_id}")
        table = Table("rule", "outcome", "observed", "limit", box=None)
        for rule in transaction["trace"]:
            table.add_row(
                rule["rule"], rule["outcome"], *(str(rule.get(key) or "") for key in ("observed", "limit"))
            )
        self._console.print(table)
        events = await api.call("GET", "/v1/events")
        kinds = {event["type"] for event in events["data"]}
        if not {"card.created", "authorization.decided", "ledger.hold.created"} <= kinds:
            raise DemoError(f"events are missing: {', '.join(sorted(kinds))}")
        self._say(f"{len(events['data'])} events were written with their causes: {', '.join(sorted(kinds))}")

    async def second_day(self, api: Api) -> None:
        """After a restart the card is as it was, and spends again."""
        await self.balance(api, posted="100.00", held="42.50", available="57.50")
        spend = await self._spend(api, "57.50", "5411", "Grocer")
        expect("decision", spend["decision"], "approved")
        self._say("the rest is spent: 57.50 approved")
        await self.balance(api, posted="100.00", held="100.00", available="0.00")

    async def balance(self, api: Api, **promised: str) -> None:
        """Show the card's balance and check it."""
        balance = await api.call("GET", f"/v1/cards/{self._card_id}/balance")
        expect("balance", {name: balance[name] for name in promised}, promised)
        self._say("balance: " + ", ".join(f"{name} {amount}" for name, amount in promised.items()))

    async def _spend(self, api: Api, amount: str, mcc: str, merchant: str) -> Json:
        """One simulated spend, followed until it is decided."""
        accepted = await api.call(
            "POST", "/v1/simulated-spends", self._spend_body(amount, mcc, merchant), status=202
        )
        deadline = time.monotonic() + DECISION_SECONDS_MAX
        while True:
            spend = await api.call("GET", f"/v1/simulated-spends/{accepted['simulation_id']}")
            if spend["state"] in ("decided", "failed"):
                expect("state of the spend", spend["state"], "decided")
                return spend
            if time.monotonic() > deadline:
                raise DemoError(f"a spend is still {spend['state']} after {DECISION_SECONDS_MAX:.0f} s")
            await asyncio.sleep(0.02)

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
        self._console.print(f"  {text}", highlight=False, markup=False)


def demo(var_dir: Path | None = None) -> None:
    """Run the journey in ``var_dir``, or in a folder that is removed afterwards.

    Raises DemoError or RunningError, each one line, when anything is not as promised.
    """
    console = Console(soft_wrap=True)
    with TemporaryDirectory(prefix="stanchion-demo-") as folder:
        installation = RunningInstallation(var_dir or Path(folder) / "var", SETTINGS)
        journey = Journey(console)
        for title, day in (
            ("Starting PostgreSQL, Redis, Ray and all actors", journey.first_day),
            ("Stopping everything, and starting it again on the same data", journey.second_day),
        ):
            console.print(f"\n[bold]{title}[/bold] ...")
            with installation as record:
                console.print(f"  serving at {record['base_url']}", highlight=False)
                asyncio.run(_spend_a_day(record, day))
    console.print("\n[bold]All answers were as promised.[/bold] `make run` starts an installation for you.")


async def _spend_a_day(record: Json, day: Callable[[Api], Coroutine[Any, Any, None]]) -> None:
    client = next(each for each in record["tenants"] if (each["mode"], each["role"]) == ("test", "admin"))
    async with aiohttp.ClientSession(record["base_url"], timeout=aiohttp.ClientTimeout(total=60)) as session:
        await day(await Api.sign_in(session, client))
