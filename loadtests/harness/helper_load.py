"""Loads that run inside helper processes, which do work of the measured system itself (the router)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from loadtests.figures import Samples
from loadtests.generators.workload import SALE
from loadtests.harness.children import Helper


class HelperLoad:
    """Spends shared out among ``helpers``; see ``workload.Load``. Either ``in_flight`` at all times, or
    ``per_second`` at fixed instants; on cards drawn by weight, or ``in_turn``."""

    def __init__(
        self,
        helpers: Sequence[Helper],
        card_ids: Sequence[str],
        in_flight: int = 0,
        *,
        per_second: float = 0.0,
        weights: Sequence[float] | None = None,
        sale: Mapping[str, Any] = SALE,
        in_turn: bool = False,
    ) -> None:
        # One spend at a time needs one helper only.
        self._helpers = helpers if per_second else helpers[:in_flight]
        count = len(self._helpers)
        self._asked: dict[str, Any] = {"cards": list(card_ids), "sale": dict(sale), "in_turn": in_turn}
        self._asked["weights"] = None if weights is None else list(weights)
        self._asked |= {"per_second": per_second / count} if per_second else {"in_flight": in_flight // count}

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(helper.pid for helper in self._helpers)

    @property
    def counts_as_server(self) -> bool:
        return True

    async def start(self) -> None:
        await asyncio.gather(*(helper.ask("start", **self._asked) for helper in self._helpers))

    async def stop(self) -> Samples:
        samples = Samples()
        for answer in await asyncio.gather(*(helper.ask("stop") for helper in self._helpers)):
            samples.extend(msgspec.convert(answer, Samples))
        return samples
