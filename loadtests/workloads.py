"""The workloads of the benchmark: the requests, their rate, and the systems that take part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from loadtests.generators.beside_backtests import BesideBacktests
from loadtests.generators.draws import DRAWS
from loadtests.generators.lives import LifeLoad
from loadtests.generators.rest import SpendLoad
from loadtests.generators.wire import Address, WireLoad
from loadtests.generators.workload import SALE, SILENT_SALE, Load
from loadtests.harness.front import Front
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
Outside = Callable[[Front], Load]
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
    relives: bool = False
    """Whether it needs the cards with histories for back-tests."""
    far: bool = False
    """Whether the database is behind the delaying proxy."""
    primes: bool = False
    """Whether it runs once before the measurement, to activate cards and prepare statements."""
    uniform: str | None = None
    """The workload to compare with: the same load on uniform cards."""
    outside: Outside | None = None
    """Creates the load for the installation of an earlier commit; ``None`` for workloads inside the process,
    which cannot call the code of another version."""

    @property
    def rivals(self) -> set[str]:
        """The rivals that must run."""
        return set(self.loads) - {OURS}

    def load(self, system: str, servers: BenchServers) -> Load | None:
        """The load for ``system``; ``None`` if it does not take part."""
        if servers.earlier is not None and system == servers.earlier.system.name:
            return None if self.outside is None else self.outside(servers.earlier)
        return self.loads[system](servers) if system in self.loads else None


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
    name: str,
    title: str,
    draw: str = "uniform",
    *,
    in_flight: int = 0,
    per_second: float = 0.0,
    uniform: str | None = None,
    primes: bool = False,
) -> Workload:
    """Spends over ISO 8583; rivals use the same edge."""

    def spends(edges: Sequence[Address], front: Front) -> Load:
        cards = front.cards[:1] if draw == "hot" else front.cards
        return WireLoad(
            edges,
            cards,
            connections=WIRE_CONNECTIONS,
            in_flight=in_flight,
            per_second=per_second,
            weights=None if draw == "hot" else DRAWS[draw](len(cards)),
        )

    def rival(servers: BenchServers, system: str) -> Load:
        return spends(servers.rivals[system].edges, servers)

    rivals = {system: partial(rival, system=system) for system in ON_POSTGRES[1:]}
    return _outside(
        name, title, lambda front: spends([front.edge], front), rivals, uniform=uniform, primes=primes
    )


def _rest(
    name: str, title: str, in_flight: int, *, per_second: float = 0.0, primes: bool = False
) -> Workload:
    def spends(front: Front) -> Load:
        return SpendLoad(front.api, front.card_ids, in_flight, per_second=per_second)

    return _outside(name, title, spends, primes=primes)


def _lives(front: Front) -> Load:
    return LifeLoad([front.edge], front.cards, connections=WIRE_CONNECTIONS, in_flight=LIVES)


def _outside(
    name: str, title: str, load: Outside, rivals: Mapping[str, Make] | None = None, **about: Any
) -> Workload:
    """A workload through the interfaces of an installation."""
    return Workload(name, title, {OURS: load, **(rivals or {})}, outside=load, **about)


def _beside_backtests(servers: BenchServers) -> Load:
    load = WireLoad([servers.edge], servers.cards, connections=WIRE_CONNECTIONS, per_second=OPEN_PER_SECOND)
    return BesideBacktests(load, servers.api, servers.relived_programme)


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
    _wire("wire", f"ISO 8583 over TCP, {IN_FLIGHT} in flight", in_flight=IN_FLIGHT, primes=True),
    _wire("wire-hot", "ISO 8583 over TCP, all on one card", "hot", in_flight=IN_FLIGHT, uniform="wire"),
    _wire(
        "wire-open",
        f"ISO 8583 over TCP, open loop at {OPEN_PER_SECOND:.0f}/s",
        per_second=OPEN_PER_SECOND,
    ),
    Workload(
        "backtest",
        f"the same open loop at {OPEN_PER_SECOND:.0f}/s beside a back-test",
        {OURS: _beside_backtests},
        relives=True,
        primes=True,
    ),
    _outside(
        "life",
        f"ISO 8583: spend, increment, reversal, clearing, refund, {LIVES} lives at a time",
        _lives,
        primes=True,
    ),
    _rest("rest", f"simulated spends over REST, {IN_FLIGHT} in flight", IN_FLIGHT, primes=True),
    _rest("rest-few", f"the same over REST, {REST_FEW} in flight", REST_FEW),
    _rest(
        "rest-open",
        f"simulated spends over REST, open loop at {REST_PER_SECOND:.0f}/s",
        REST_FEW,
        per_second=REST_PER_SECOND,
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
