"""The dependencies of the API on the rest of the installation. The API server and tests each build their own
``Services``.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, Protocol

import asyncpg

from actors.clock import Clock, SystemClock
from actors.database import DbConnection
from actors.ids import new_id
from actors.settings import Settings
from actors.tracing import Tracer
from actors.vault import Vault
from api.http.counts import RestCounts
from api.identity import BuiltInProvider, IdentityProvider
from api.people.personal_data import ClearColumns
from engine.acts import Act
from engine.commands import Command
from engine.replies import IdempotencyClaim, Reply
from engine.simulation import Acceptance, SimulationRequest, SpendOutcome, SpendRequest


class Owners(Protocol):
    """Submits commands to the owners of cards and programmes (``actors.router``)."""

    def submit(
        self,
        command: Command,
        *,
        claim: IdempotencyClaim | None = None,
        presentation: dict[str, Any] | None = None,
        act: Act | None = None,
    ) -> Awaitable[Reply]:
        """Execute ``command`` at its owner. Refusals are replies, not exceptions. ``act``: the administrative
        act whose row is committed with the effect."""
        ...


class Network(Protocol):
    """The simulated network (``actors.network``)."""

    async def accept(self, request: SimulationRequest) -> Acceptance:
        """Record the simulation durably and send it on its way, once for each ``simulation_id``. Raises
        ``NetworkUnavailableError``.
        """
        ...

    async def spend(self, request: SpendRequest) -> SpendOutcome | None:
        """Like ``accept``, for a spend whose card the network checks. ``None``: a network of the release
        before, which checks no cards, has not stored it."""
        ...


class Targets(Protocol):
    """Checks addresses of customers' endpoints (``actors.egress``)."""

    async def check(self, url: str, *, live: bool, party: str | None = None) -> None:
        """Check that ``url`` may be called now, in that mode. Look-ups are limited for each ``party``. Raises
        ``TargetRefusedError``."""
        ...


class NewId(Protocol):
    """Draws a fresh id on ``shard``, or on a random one."""

    def __call__(self, shard: int | None = None) -> str: ...


@dataclass(frozen=True)
class Services:
    """``pool`` is for reads and for the API's own short transactions; ``card_state_connection`` is for
    ``CardStates``. Neither is used outside the API."""

    settings: Settings
    pool: asyncpg.Pool[asyncpg.Record]
    card_state_connection: DbConnection
    vault: Vault
    owners: Owners
    network: Network
    egress: Targets
    clock: Clock = field(default_factory=SystemClock)
    new_id: NewId = new_id
    identity: IdentityProvider = field(default_factory=BuiltInProvider)
    counts: RestCounts = field(default_factory=RestCounts)
    clear_columns: ClearColumns = field(default_factory=ClearColumns)
    tracer: Tracer | None = None
