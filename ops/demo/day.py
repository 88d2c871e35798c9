"""A day of traffic for the demo that keeps running: programmes, cards, and every purchase of the plan.

Every decision is a real one: the simulated network sends each purchase to the edge over ISO 8583. The
database's clock dates decisions, and nothing may back-date them, so the day is compressed: an hour of the
plan lasts ``hour_seconds``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from engine.currencies import parse_money
from ops.demo.checks import DemoError
from ops.demo.day_plan import BURST_SHOP, CURRENCY_OF, HOLDERS, Pool, Purchase, in_money
from stanchion import AsyncClient, ConflictError, NoAnswerError, NotDecidedError, ServerFaultError
from stanchion.records import Control, Simulation

HOUR_SECONDS: Final = 2.8
AT_ONCE_MAX: Final = 16
"""Purchases that are followed to their decision at the same time."""
RECEIVER_DOWN: Final = (1.0, 4.0)
"""The hours in which the webhook receiver fails. The first retry is due a minute later: within the day."""
PARTNER_DOWN: Final = (13.0, 16.0)
"""The hours in which the partner's decision endpoint fails."""
DECISION_TIMEOUT_MS: Final = 3_000
"""Generous for a local endpoint, so that no answer is late by accident."""
PRESENTED_PERCENT: Final = 60
"""A merchant presents this much of the approved amount where the plan says that it presents less."""


class Outcome(NamedTuple):
    """A decided purchase."""

    purchase: Purchase
    simulation: Simulation


@dataclass
class Traffic:
    """The counts that the summary shows."""

    approved: int = 0
    unanswered: int = 0
    declined: Counter[str] = field(default_factory=Counter)
    follow_ups: Counter[str] = field(default_factory=Counter)

    def count(self, simulation: Simulation) -> None:
        """Count one decision."""
        if simulation["decision"] == "approved":
            self.approved += 1
        else:
            self.declined[str(simulation["decline_reason"])] += 1


@dataclass(frozen=True)
class _Terms:
    """A programme of the day, its product and the controls of its cards."""

    name: str
    network: str
    iin: str
    form_factor: str
    controls: Sequence[Control] = ()


_TERMS: Final[dict[Pool, _Terms]] = {
    "everyday": _Terms(
        "Everyday",
        "visa",
        "45600000",
        "virtual",
        (
            {"kind": "mcc_deny", "values": ["7995"]},
            {"kind": "per_txn_cap", "amount": "500.00"},
            {"kind": "per_day_amount_cap", "amount": "900.00"},
        ),
    ),
    "business": _Terms("Business travel", "mastercard", "52100000", "physical"),
    "students": _Terms(
        "Students",
        "visa",
        "45600002",
        "virtual",
        ({"kind": "country_allow", "values": ["GB", "IE"]}, {"kind": "channel_deny", "values": ["atm"]}),
    ),
    "partner": _Terms("Partner bank", "mastercard", "52100001", "virtual"),
}


class Day:
    """One day on one installation. ``prepare`` creates everything that is spent on; ``run`` spends."""

    def __init__(self, api: AsyncClient, hour_seconds: float = HOUR_SECONDS) -> None:
        self._api = api
        self._hour_seconds = hour_seconds
        self._cards: list[str] = []
        self._slots = asyncio.Semaphore(AT_ONCE_MAX)
        self.programmes: dict[Pool, str] = {}
        self.traffic = Traffic()

    async def prepare(self, decision_url: str) -> str:
        """Create programmes, rules, cards and funds; returns the decision secret of the partner, whose
        endpoint is at ``decision_url``."""
        pools = tuple(_TERMS)
        made = await asyncio.gather(*(self._programme(pool, decision_url) for pool in pools))
        self.programmes = {pool: programme["id"] for pool, (programme, _) in zip(pools, made, strict=True)}
        products = {pool: product for pool, (_, product) in zip(pools, made, strict=True)}
        await asyncio.gather(self._rules(), self._identity_checks())
        self._cards = await asyncio.gather(*(self._issue(number, products) for number in range(len(HOLDERS))))
        partner, _ = made[pools.index("partner")]
        return str(partner["decision_secret"])

    async def run(self, purchases: Sequence[Purchase]) -> None:
        """Send every purchase at its hour, and follow it to its end."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        async with asyncio.TaskGroup() as group:
            for purchase in purchases:
                await asyncio.sleep(begin + purchase.hour * self._hour_seconds - loop.time())
                await self._slots.acquire()
                group.create_task(self.buy(purchase)).add_done_callback(lambda _: self._slots.release())

    # --- what is spent on ---------------------------------------------------------------------------------

    async def _programme(self, pool: Pool, decision_url: str) -> tuple[Any, str]:
        terms = _TERMS[pool]
        delegated: Any = {}
        if pool == "partner":
            delegated = {
                "decisioning": "delegated",
                "decision_url": decision_url,
                "decision_timeout_ms": DECISION_TIMEOUT_MS,
            }
        programme = await self._api.programs.create(name=terms.name, currency=CURRENCY_OF[pool], **delegated)
        if delegated:
            await self._api.programs.set_stip_policy(
                programme["id"],
                mode="approve_within_limits",
                max_amount="40.00",
                max_total_exposure=in_money(500_00, CURRENCY_OF[pool]),
            )
        fields: Any = {"network": terms.network, "form_factor": terms.form_factor, "iin": terms.iin}
        product = await self._api.card_products.create(
            programme_id=programme["id"],
            name=f"{terms.name} card",
            currency=CURRENCY_OF[pool],
            control_defaults=list(terms.controls),
            **fields,
        )
        return programme, product["id"]

    async def _rules(self) -> None:
        """One rule that decides, and one in shadow."""
        scope: Any = {"type": "programme", "id": self.programmes["everyday"]}
        burst: Any = {
            "attribute": "velocity",
            "measure": "count",
            "window": "PT10M",
            "where": [{"attribute": "merchant_id", "op": "eq", "value": BURST_SHOP}],
            "op": "gt",
            "value": 3,
        }
        at_shop: Any = {"attribute": "merchant_id", "op": "eq", "value": BURST_SHOP}
        abroad: Any = [
            {"attribute": "merchant_currency", "op": "ne", "value": "EUR"},
            {"attribute": "amount", "op": "gt", "value": "100.00"},
        ]
        await self._api.authorization_rules.create(
            name="Bursts at one shop", scope=scope, when=[at_shop, burst], reason="shop_burst", state="active"
        )
        await self._api.authorization_rules.create(
            name="Large purchases abroad", scope=scope, when=abroad, reason="large_abroad", state="shadow"
        )

    async def _identity_checks(self) -> None:
        """A check that passes, and one that waits for a reviewer."""
        for given_name, family_name in (("Ada", "Byron"), ("Sam", "REVIEW")):
            holder = await self._api.cardholders.create(
                programme_id=self.programmes["everyday"],
                given_name=given_name,
                family_name=family_name,
                email=f"{given_name}.check@example.com".lower(),
            )
            check = await self._api.kyc.create(cardholder_id=holder["id"], flow_key="basic")
            await self._api.kyc.submit(
                check["id"],
                given_name=given_name,
                family_name=family_name,
                date_of_birth="1990-05-17",
                nationality="IE",
                address_line1="12 Harbour Street",
                address_postcode="D02 XY45",
                address_country="IE",
            )

    async def _issue(self, number: int, products: dict[Pool, str]) -> str:
        """The card of one holder, funded."""
        holder = HOLDERS[number]
        async with self._slots:
            person = await self._api.cardholders.create(
                programme_id=self.programmes[holder.pool],
                given_name=holder.given_name,
                family_name=holder.family_name,
                email=f"{holder.given_name}.{holder.family_name}@example.com".lower(),
            )
            card = await self._api.cards.create(
                card_product_id=products[holder.pool], cardholder_id=person["id"], activate=True
            )
            currency = CURRENCY_OF[holder.pool]
            await self._api.cards.load(card["id"], in_money(holder.funds * 100, currency))
            if holder.pool == "partner":
                balance = {"balance": in_money(holder.funds * 100, currency)}
                await self._api.request("PUT", f"/v1/cards/{card['id']}/declared-balance", body=balance)
        return card["id"]

    # --- purchases ----------------------------------------------------------------------------------------

    async def buy(self, purchase: Purchase) -> None:
        """Send one purchase; after its approval, what the plan says. One that gets no answer is counted: an
        API server that is replaced meanwhile does not end the day."""
        try:
            await self._buy(purchase)
        except (NoAnswerError, NotDecidedError, ServerFaultError):
            self.traffic.unanswered += 1

    async def _buy(self, purchase: Purchase) -> None:
        accepted = await self._api.simulations.spend(**purchase.fields(self._cards[purchase.holder]))
        simulation = await self._api.simulations.wait(accepted["simulation_id"])
        if simulation["state"] != "decided":
            raise DemoError(f"a purchase at {purchase.merchant.name} is {simulation['state']}")
        self.traffic.count(simulation)
        if simulation["decision"] == "approved" and purchase.follow_up != "none":
            # The hold may have changed meanwhile: a presentment by the network itself, for example.
            with suppress(ConflictError):
                await self._follow_up(Outcome(purchase, simulation))
                self.traffic.follow_ups[purchase.follow_up] += 1

    async def _follow_up(self, outcome: Outcome) -> None:
        purchase, simulation = outcome
        id_, currency = simulation["simulation_id"], CURRENCY_OF[HOLDERS[purchase.holder].pool]
        simulations = self._api.simulations
        match purchase.follow_up:
            case "increment":
                await simulations.increment(id_, in_money(max(1, purchase.billed_minor // 4), currency))
            case "reverse":
                await simulations.reverse(id_)
            case "present_less":
                approved = simulation["approved_amount"] or {"amount": "0.00"}
                approved_minor = parse_money(approved["amount"], currency) or 0
                presented_minor = max(1, approved_minor * PRESENTED_PERCENT // 100)
                await simulations.clear(id_, in_money(presented_minor, currency))
            case "refund":
                await simulations.clear(id_)
                refund = purchase.fields(self._cards[purchase.holder]) | {"kind": "refund"}
                await simulations.spend(**refund)
