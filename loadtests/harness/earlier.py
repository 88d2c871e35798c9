"""An installation of an earlier commit, beside the one that is measured.

It is used through interfaces that releases keep: ``stanchion up`` and ``run.json``, the REST API, ISO 8583,
the metrics page. No interface shows card numbers, so the commit's own ``ops.bench.inside`` reads them once.
Sizes come from PostgreSQL's catalog; if the database cannot be found, the report leaves them out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import IO, Any

import msgspec

from loadtests.generators.http import Api
from loadtests.generators.rest import issue_cards
from loadtests.generators.wire import Address
from loadtests.generators.workload import Card
from loadtests.harness.checkout import Checkout
from loadtests.harness.children import ChildError, Helper, Installation
from loadtests.harness.front import address_of, labels_of, ray_address, signed_in
from loadtests.harness.metrics import scrape
from loadtests.harness.systems import System


class EarlierServers:
    """``start``; the stack that ``start`` receives stops it."""

    def __init__(self, folder: Path, checkout: Checkout, settings: Mapping[str, str]) -> None:
        """``settings``: the installation's environment variables."""
        self._folder = folder
        self._settings = dict(settings)
        self.checkout = checkout
        self.installation = Installation(folder / "var", self._settings, checkout.version)
        self.run: dict[str, Any] = {}
        self.api: Api
        self.cards: list[Card] = []
        self.system: System
        self.start_seconds = 0.0

    @property
    def edge(self) -> Address:
        """Where it speaks ISO 8583."""
        return address_of(self.run)

    @property
    def card_ids(self) -> list[str]:
        return [card.card_id for card in self.cards]

    async def start(self, stack: AsyncExitStack, cards: int, errors: IO[bytes]) -> None:
        """Start it and issue ``cards`` cards. Raises ChildError, which names the commit, or HttpError."""
        name = self.checkout.commit.name
        stack.push_async_callback(self.installation.stop)
        began = time.monotonic()
        try:
            self.run = await self.installation.start()
        except ChildError as failure:
            raise ChildError(f"{name}: {failure}") from None
        self.start_seconds = time.monotonic() - began
        self.api = await signed_in(self.run, stack)
        self.cards = await self._numbers(await issue_cards(self.api, cards), errors)
        url = self.run["metrics_url"]
        labels = labels_of((await scrape(url)).processes, self.installation.pid)
        meter = await self._meter(stack, errors)
        self.system = System(
            name=name,
            roots=(self.installation.pid,),
            labels=labels,
            metrics_url=url,
            log=meter,
            database=None if meter is None else "",
        )

    async def _numbers(self, card_ids: list[str], errors: IO[bytes]) -> list[Card]:
        where = (str(self._folder / "var"), ray_address(self.installation.pid))
        inside = Helper(self._settings, "ops.bench.inside", *where, version=self.checkout.version)
        try:
            await inside.start(errors)
            return msgspec.convert(await inside.ask("cards", card_ids=card_ids), list[Card])
        except ChildError as failure:
            raise ChildError(f"{self.checkout.commit.name} does not show its cards: {failure}") from None
        finally:
            await inside.stop()

    async def _meter(self, stack: AsyncExitStack, errors: IO[bytes]) -> Helper | None:
        meter = Helper(self._settings, "ops.bench.meter", str(self._folder / "var"))
        stack.push_async_callback(meter.stop)
        await meter.start(errors)
        try:
            await meter.ask("log_bytes")
        except ChildError:
            return None
        return meter
