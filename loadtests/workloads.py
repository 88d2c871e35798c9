"""The workloads of the benchmark: what is asked, how hard, and of which systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from loadtests.helper_load import HelperLoad
from loadtests.lives import LifeLoad
from loadtests.rest import SpendLoad
from loadtests.slices import OURS, RIVAL
from loadtests.stage import Stage
from loadtests.wire import WireLoad
from loadtests.workload import SILENT_SALE, Load

IN_FLIGHT = 256
LIVES = 128
STAND_IN_FLIGHT = 2_048
"""Each waits for the programme's deadline before anybody stands in for it."""
WIRE_CONNECTIONS = 4
WIRE_PER_SECOND = 500.0
REST_CONNECTIONS = 32
REST_PER_SECOND = 100.0


class Workload(msgspec.Struct, frozen=True):
    """``loads`` makes the load for each system that takes part."""

    name: str
    title: str
    loads: Mapping[str, Callable[[Stage], Load]]
    stands_in: bool = False
    """Whether it needs the programmes that decide by themselves."""
    primes: bool = False
    """Whether it runs once before anything is measured: cards become active, statements are prepared."""


def _inside(in_flight: int, cards: int | None = None) -> dict[str, Callable[[Stage], Load]]:
    return {
        OURS: lambda stage: HelperLoad([stage.inside], stage.card_ids[:cards], in_flight),
        RIVAL: lambda stage: HelperLoad(stage.rivals, stage.card_ids[:cards], in_flight),
    }


def _stand_in(draw: Callable[[Stage], list[str]]) -> dict[str, Callable[[Stage], Load]]:
    return {
        OURS: lambda stage: HelperLoad([stage.inside], draw(stage), STAND_IN_FLIGHT, SILENT_SALE),
        RIVAL: lambda stage: HelperLoad(stage.rivals, draw(stage), STAND_IN_FLIGHT, SILENT_SALE),
    }


def _wire(
    cards: int | None = None, *, in_flight: int = 0, per_second: float = 0.0
) -> dict[str, Callable[[Stage], Load]]:
    def load(stage: Stage, addresses: list[tuple[str, int]]) -> Load:
        return WireLoad(
            addresses,
            stage.cards[:cards],
            connections=WIRE_CONNECTIONS,
            in_flight=in_flight,
            per_second=per_second,
        )

    return {
        OURS: lambda stage: load(stage, [stage.edge]),
        RIVAL: lambda stage: load(stage, stage.rival_addresses),
    }


WORKLOADS = (
    Workload("router", f"router → host → PostgreSQL, {IN_FLIGHT} in flight", _inside(IN_FLIGHT), primes=True),
    Workload("router-1", "router → host → PostgreSQL, one at a time", _inside(1)),
    Workload("router-hot", "router → host → PostgreSQL, all on one card", _inside(IN_FLIGHT, 1)),
    Workload(
        "stand-in",
        "router → host → PostgreSQL, every spend stands in on one programme",
        _stand_in(lambda stage: stage.ample_ids),
        stands_in=True,
        primes=True,
    ),
    Workload(
        "stand-in-tight",
        "router → host → PostgreSQL, every spend stands in, the budget all but used up",
        _stand_in(lambda stage: stage.tight_ids),
        stands_in=True,
        primes=True,
    ),
    Workload("wire", f"ISO 8583 over TCP, {IN_FLIGHT} in flight", _wire(in_flight=IN_FLIGHT), primes=True),
    Workload("wire-hot", "ISO 8583 over TCP, all on one card", _wire(1, in_flight=IN_FLIGHT)),
    Workload(
        "wire-open",
        f"ISO 8583 over TCP, open loop at {WIRE_PER_SECOND:.0f}/s",
        _wire(per_second=WIRE_PER_SECOND),
    ),
    Workload(
        "life",
        f"ISO 8583: spend, increment, reversal, clearing, refund, {LIVES} lives at a time",
        {
            OURS: lambda stage: LifeLoad(
                [stage.edge], stage.cards, connections=WIRE_CONNECTIONS, in_flight=LIVES
            )
        },
        primes=True,
    ),
    Workload(
        "rest",
        f"simulated spends over REST, {REST_CONNECTIONS} in flight",
        {OURS: lambda stage: SpendLoad(stage.api, stage.card_ids, REST_CONNECTIONS)},
        primes=True,
    ),
    Workload(
        "rest-open",
        f"simulated spends over REST, open loop at {REST_PER_SECOND:.0f}/s",
        {
            OURS: lambda stage: SpendLoad(
                stage.api, stage.card_ids, REST_CONNECTIONS, per_second=REST_PER_SECOND
            )
        },
    ),
)
