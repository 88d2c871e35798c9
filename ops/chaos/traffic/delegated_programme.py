"""Programmes with their own decision endpoint, which is available only at times (G6)."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, Literal

from rich.console import Console

from ops.chaos.traffic.issuing import new_cards
from ops.commands.decide import DecisionEndpoint
from ops.commands.decision_behaviours import Behaviour
from ops.embedded.local_https import local_receiver
from stanchion import Client, StanchionError, money

TIMEOUT_MS: Final = 300
SPENDS_IN_BUDGET: Final = 13
SPEND_MAX: Final = "1.00"
BUDGET: Final = f"{SPENDS_IN_BUDGET}.99"
FLAPPING_BUDGET: Final = "60.00"
FLAPPING_MAX: Final = "9.00"
DECLARED: Final = "1000000.00"
BEHAVIOUR_WEIGHTS: Final[tuple[Behaviour, ...]] = (
    "approve", "approve", "approve", "decline", "down", "down", "slow", "garbage",
)  # fmt: skip


class DelegatedProgramme:
    """A programme, its endpoint and its cards. Call ``open`` and ``close`` once each."""

    def __init__(self, name: str, budget: str, amount_max: str) -> None:
        self._name = name
        self._budget = budget
        self._amount_max = amount_max
        self._stack = AsyncExitStack()
        self._endpoint = DecisionEndpoint(Console(quiet=True), "approve")
        self._client: Client
        self.programme_id = ""
        self.secret = ""

    async def open(self, var_dir: Path, client: Client, cards: int) -> list[str]:
        """Start the endpoint and create the programme; returns the ids of its cards."""
        url = await self._stack.enter_async_context(local_receiver(var_dir, self._endpoint.handle))
        self._client = client
        return await asyncio.to_thread(self._make, f"{url}/decide", cards)

    async def close(self) -> None:
        await self._stack.aclose()

    def _make(self, url: str, cards: int) -> list[str]:
        programme: Any = self._client.programs.create(
            name=self._name,
            currency="EUR",
            decisioning="delegated",
            decision_url=url,
            decision_timeout_ms=TIMEOUT_MS,
        )
        self.programme_id = programme["id"]
        self.secret = self._endpoint.secret = programme["decision_secret"]
        self._set_policy("EUR")
        return new_cards(self._client, self.programme_id, cards, funds=DECLARED, declared=DECLARED)

    def behave(self, behaviour: Behaviour) -> None:
        """Set how the endpoint answers."""
        self._endpoint.behaviour = behaviour

    async def set_currency(self, currency: Literal["EUR", "GBP"]) -> bool:
        """Change the budget's currency; returns whether the platform has confirmed it."""
        try:
            await asyncio.to_thread(self._set_policy, currency)
        except StanchionError:
            return False
        return True

    async def require_currency(self, currency: Literal["EUR", "GBP"]) -> None:
        """Change the budget's currency, and retry until the platform has confirmed it."""
        while True:
            if await self.set_currency(currency):
                return
            await asyncio.sleep(0.2)

    def _set_policy(self, currency: Literal["EUR", "GBP"]) -> None:
        self._client.programs.set_stip_policy(
            self.programme_id,
            mode="approve_within_limits",
            max_amount=self._amount_max,
            max_total_exposure=money(self._budget, currency),
        )

    async def flap(self, dice: random.Random) -> None:
        """Change the endpoint's behaviour at random until cancelled; now and then also the budget's currency
        for a while."""
        while True:
            self.behave(dice.choice(BEHAVIOUR_WEIGHTS))
            await asyncio.sleep(dice.uniform(0.5, 3.0))
            if dice.random() < 0.05:
                await self.set_currency("GBP")
                await asyncio.sleep(dice.uniform(0.2, 1.0))
                await self.require_currency("EUR")
