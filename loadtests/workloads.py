"""The workloads of the benchmark: the requests, their rate, and the systems that take part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from loadtests.generators.draws import DRAWS
from loadtests.generators.lives import LifeLoad
from loadtests.generators.rest import SpendLoad
from loadtests.generators.wire import WireLoad
from loadtests.generators.workload import SALE, SILENT_SALE, Load
from loadtests.harness.helper_load import HelperLoad
from loadtests.harness.servers import BenchServers
from loadtests.harness.systems import BATCHES, OURS, RIVALS, ROW_LOCKS

IN_FLIGHT = 256
LIVES = 128
STAND_IN_FLIGHT = 2_048
"""For Stanchion, where each spend waits for the programme's deadline before stand-in. Rivals do not wait."""
WIRE_CONNECTIONS = 4
OPEN_PER_SECOND = 500.0
REST_FEW = 32
REST_PER_SECOND = 100.0
FAR_MS = 1.0

Make = Callable[[BenchServers], Load]
IN_PROCESS = (OURS, *RIVALS)
ON_POSTGRES = (OURS, ROW_LOCKS, BATCHES)


class Workload(msgspec.Struct, frozen=True):
    """``loads`` creates the load for each system that takes part."""

    name: str
    title: str
    loads: Mapping[str, Make]
    stands_in: bool = False
    """Whether it needs the delegated programmes."""
    capped: bool = False
    """Whether it needs the cards with velocity caps and a history."""
    far: bool = False
    """Whether the database is behind the delaying proxy."""
    primes: bool = False
    """Whether it runs once before the measurement, to activate cards and prepare statements."""
    uniform: str | None = None
    """The workload to compare with: the same load on uniform cards."""

    @property
    def rivals(self) -> set[str]:
        """The rivals that must run."""
        return set(self.loads) - {OURS}


def _inside(
    systems: Sequence[str],
    cards: Callable[[BenchServers], list[str]] = lambda servers: servers.card_ids,
    draw: str = "uniform",
    sale: Mapping[str, Any] = SALE,
    in_flight: int = IN_FLIGHT,
    per_second: float = 0.0,
) -> dict[str, Make]:
    """Callers beside the router, or in the rivals' own processes."""

    def load(servers: BenchServers, system: str) -> Load:
        ids = cards(servers)
        helpers = [servers.inside] if system == OURS else servers.rivals[system].helpers
        return HelperLoad(
            helpers,
            ids,
            0 if per_second else in_flight,
            per_second=per_second,
            weights=DRAWS[draw](len(ids)),
            sale=sale,
        )

    return {system: partial(load, system=system) for system in systems}


def _stand_in(cards: Callable[[BenchServers], list[str]]) -> dict[str, Make]:
    """The systems that implement stand-in."""
    ours = _inside((OURS,), cards, sale=SILENT_SALE, in_flight=STAND_IN_FLIGHT)
    return ours | _inside(ON_POSTGRES[1:], cards, sale=SILENT_SALE)


def _wire(
    systems: Sequence[str], draw: str = "uniform", *, in_flight: int = 0, per_second: float = 0.0
) -> dict[str, Make]:
    def load(servers: BenchServers, system: str) -> Load:
        cards = servers.cards[:1] if draw == "hot" else servers.cards
        return WireLoad(
            [servers.edge] if system == OURS else servers.rivals[system].edges,
            cards,
            connections=WIRE_CONNECTIONS,
            in_flight=in_flight,
            per_second=per_second,
            weights=None if draw == "hot" else DRAWS[draw](len(cards)),
        )

    return {system: partial(load, system=system) for system in systems}


def _rest(in_flight: int) -> dict[str, Make]:
    return {OURS: lambda servers: SpendLoad(servers.api, servers.card_ids, in_flight)}


def _first(servers: BenchServers) -> list[str]:
    return servers.card_ids[:1]


_ROUTER = "in-process"

WORKLOADS = (
    Workload("router", f"{_ROUTER}, {IN_FLIGHT} in flight", _inside(IN_PROCESS), primes=True),
    Workload("router-1", f"{_ROUTER}, one at a time", _inside(IN_PROCESS, in_flight=1)),
    Workload(
        "router-open",
        f"{_ROUTER}, open loop at {OPEN_PER_SECOND:.0f}/s",
        _inside(IN_PROCESS, per_second=OPEN_PER_SECOND),
    ),
    Workload("router-zipf", f"{_ROUTER}, Zipf 1.1", _inside(IN_PROCESS, draw="zipf"), uniform="router"),
    Workload(
        "router-half",
        f"{_ROUTER}, one card takes half",
        _inside(IN_PROCESS, draw="half"),
        uniform="router",
    ),
    Workload("router-hot", f"{_ROUTER}, all on one card", _inside(IN_PROCESS, _first), uniform="router"),
    Workload(
        "router-caps",
        f"{_ROUTER}, five controls with velocity caps, cards with long histories",
        _inside(IN_PROCESS, lambda servers: servers.capped_ids),
        capped=True,
        primes=True,
        uniform="router",
    ),
    Workload(
        "stand-in",
        f"{_ROUTER}, every spend stands in on one programme",
        _stand_in(lambda servers: servers.ample_ids),
        stands_in=True,
        primes=True,
        uniform="router",
    ),
    Workload(
        "stand-in-tight",
        f"{_ROUTER}, every spend stands in, the budget all but used up",
        _stand_in(lambda servers: servers.tight_ids),
        stands_in=True,
        primes=True,
        uniform="router",
    ),
    Workload(
        "wire",
        f"ISO 8583 over TCP, {IN_FLIGHT} in flight",
        _wire(ON_POSTGRES, in_flight=IN_FLIGHT),
        primes=True,
    ),
    Workload(
        "wire-hot",
        "ISO 8583 over TCP, all on one card",
        _wire(ON_POSTGRES, "hot", in_flight=IN_FLIGHT),
        uniform="wire",
    ),
    Workload(
        "wire-open",
        f"ISO 8583 over TCP, open loop at {OPEN_PER_SECOND:.0f}/s",
        _wire(ON_POSTGRES, per_second=OPEN_PER_SECOND),
    ),
    Workload(
        "life",
        f"ISO 8583: spend, increment, reversal, clearing, refund, {LIVES} lives at a time",
        {
            OURS: lambda servers: LifeLoad(
                [servers.edge], servers.cards, connections=WIRE_CONNECTIONS, in_flight=LIVES
            )
        },
        primes=True,
    ),
    Workload(
        "rest",
        f"simulated spends over REST, {IN_FLIGHT} in flight",
        _rest(IN_FLIGHT),
        primes=True,
    ),
    Workload("rest-few", f"the same over REST, {REST_FEW} in flight", _rest(REST_FEW)),
    Workload(
        "rest-open",
        f"simulated spends over REST, open loop at {REST_PER_SECOND:.0f}/s",
        {
            OURS: lambda servers: SpendLoad(
                servers.api, servers.card_ids, REST_FEW, per_second=REST_PER_SECOND
            )
        },
    ),
    Workload(
        "far",
        f"{_ROUTER}, database {FAR_MS:g} ms away, {IN_FLIGHT} in flight",
        _inside(ON_POSTGRES),
        far=True,
        primes=True,
    ),
    Workload(
        "far-hot",
        f"{_ROUTER}, database {FAR_MS:g} ms away, all on one card",
        _inside(ON_POSTGRES, _first),
        far=True,
        uniform="far",
    ),
    Workload(
        "far-1",
        f"{_ROUTER}, database {FAR_MS:g} ms away, one at a time",
        _inside(ON_POSTGRES, in_flight=1),
        far=True,
    ),
)
