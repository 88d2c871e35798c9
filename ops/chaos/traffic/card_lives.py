"""A cardholder with operations that shoppers never send: refunds, force posts, purchases that the network
decides, replacements of the card, and its number on the vision host.

They are rare, and give the checks of the books about them their subjects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import httpx2

from stanchion import AsyncClient, StanchionError, money

ROUND_PAUSE_SECONDS: Final = 10.0
PAGE_SECONDS_MAX: Final = 10.0
_PRICE: Final = money("10.00", "EUR")
_SHOP: Final[dict[str, Any]] = {"mcc": "5411", "merchant_name": "Corner shop"}


class CardLife:
    """Call ``run_once`` before the first fault, then ``run_forever``, then ``close``."""

    def __init__(
        self, api: AsyncClient, revealing: AsyncClient, card_id: str, keep_secret: Callable[[str], None]
    ) -> None:
        """``revealing`` has the scope ``cards:reveal``; ``keep_secret`` receives the tokens of pages."""
        self._api = api
        self._revealing = revealing
        self._card_id = card_id
        self._keep_secret = keep_secret
        self._pages = httpx2.AsyncClient(timeout=PAGE_SECONDS_MAX)
        self.rounds = 0

    async def close(self) -> None:
        """Disconnect."""
        for each in (self._api, self._revealing):
            await each.close()
        await self._pages.aclose()

    async def run_forever(self) -> None:
        """Run one round after the other until cancelled. A fault may end a round."""
        while True:
            await asyncio.sleep(ROUND_PAUSE_SECONDS)
            with suppress(StanchionError, httpx2.HTTPError):
                await self.run_once()

    async def run_once(self) -> None:
        """One round. Raises StanchionError, or ``httpx2.HTTPError`` for the page."""
        # A round that a fault ended may have replaced the card.
        card = await self._api.cards.get(self._card_id)
        self._card_id = card["replaced_by"] or self._card_id
        await self._spend()
        await self._spend(kind="refund", present=True)
        await self._spend(scenario="force_stip_timeout")
        posted = await self._api.simulations.force_post(card_id=self._card_id, amount=_PRICE, **_SHOP)
        await self._api.simulations.wait(posted["simulation_id"])
        new = await self._api.cards.replace(self._card_id, reason="damaged")
        self._card_id = new["id"]
        await self._spend(present=True)
        await self._show()
        self.rounds += 1

    async def _spend(self, *, present: bool = False, **fields: Any) -> None:
        spend = {"card_id": self._card_id, "amount": _PRICE, "channel": "pos", **_SHOP, **fields}
        sent = await self._api.simulations.spend(**spend)
        await self._api.simulations.wait(sent["simulation_id"])
        if present:
            presented = await self._api.simulations.clear(sent["simulation_id"], _PRICE)
            await self._api.simulations.wait(presented["simulation_id"])

    async def _show(self) -> None:
        """Open the page that shows the card, and view it twice: the second view is refused."""
        session = await self._revealing.cards.reveal(self._card_id)
        page, _, token = session["url"].partition("#")
        self._keep_secret(token)
        for _ in range(2):
            await self._pages.post(page, json={"token": token})
