"""A closed loop that runs inside helper processes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from loadtests.children import Helper
from loadtests.figures import Samples
from loadtests.workload import SALE


class HelperLoad:
    """``in_flight`` spends, shared out among ``helpers``. See ``workload.Load``."""

    def __init__(
        self,
        helpers: Sequence[Helper],
        card_ids: Sequence[str],
        in_flight: int,
        sale: Mapping[str, Any] = SALE,
    ) -> None:
        # One spend at a time needs one helper only.
        self._helpers = helpers[:in_flight]
        self._card_ids = card_ids
        self._share = in_flight // len(self._helpers)
        self._sale = dict(sale)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(helper.pid for helper in self._helpers)

    async def start(self) -> None:
        asked = {"cards": list(self._card_ids), "sale": self._sale, "in_flight": self._share}
        await asyncio.gather(*(helper.ask("start", **asked) for helper in self._helpers))

    async def stop(self) -> Samples:
        samples = Samples()
        for answer in await asyncio.gather(*(helper.ask("stop") for helper in self._helpers)):
            samples.extend(msgspec.convert(answer, Samples))
        return samples
