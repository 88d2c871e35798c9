"""All that the API needs from the rest of the installation, handed in from outside.

The API server builds one ``Services``; tests build another with what they like in it.
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
from actors.vault import Vault
from api.http.counts import RestCounts
from api.identity import BuiltInProvider, IdentityProvider
from api.people.personal_data import ClearColumns
from engine.acts import Act
from engine.commands import Command
from engine.replies import IdempotencyClaim, Reply
from engine.simulation import Acceptance, SimulationRequest


class Owners(Protocol):
    """The way to the one writer of each card and programme (``actors.router``)."""

    def submit(
        self,
        command: Command,
        *,
        claim: IdempotencyClaim | None = None,
        presentation: dict[str, Any] | None = None,
        act: Act | None = None,
    ) -> Awaitable[Reply]:
        """Execute ``command`` at its owner; never raises for a reason of the domain. ``act``: the
        administrative act whose row is committed with the effect."""
        ...


class Network(Protocol):
    """The simulated network (``actors.network``)."""

    async def accept(self, request: SimulationRequest) -> Acceptance:
        """Record the simulation durably and send it on its way, once for each ``simulation_id``. Raises
        ``NetworkUnavailableError``.
        """
        ...


class Targets(Protocol):
    """Judges addresses that customers give us to call (``actors.egress``)."""

    async def check(self, url: str, *, live: bool, party: str | None = None) -> None:
        """Whether ``url`` may be called as things stand, in that mode; ``party`` asks. Raises
        ``TargetRefusedError``."""
        ...


class NewId(Protocol):
    """Draws a fresh id on ``shard``, or on a random one."""

    def __call__(self, shard: int | None = None) -> str: ...


@dataclass(frozen=True)
class Services:
    """``pool`` is used for reads and for the API's own short transactions, ``card_lane`` for the one look-up
    of the hot path; nobody else shares them."""

    settings: Settings
    pool: asyncpg.Pool[asyncpg.Record]
    card_lane: DbConnection
    vault: Vault
    owners: Owners
    network: Network
    egress: Targets
    clock: Clock = field(default_factory=SystemClock)
    new_id: NewId = new_id
    identity: IdentityProvider = field(default_factory=BuiltInProvider)
    counts: RestCounts = field(default_factory=RestCounts)
    clear_columns: ClearColumns = field(default_factory=ClearColumns)
