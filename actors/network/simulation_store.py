"""The store of simulations: STANs, one row for each simulation, and its state changes.

A simulation has its STAN and RRN in the database before the first byte of its message leaves: ``insert`` and
``insert_follow_ups`` return after the commit. A follow-up and the change of its sale commit in one
transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol

import msgspec

from engine.simulation import FollowUpRecord, FollowUpRequest, Operation, Original, SpendRequest


class Failure(msgspec.Struct, frozen=True):
    """Why a simulation failed, as the API shows it."""

    stage: Literal["pre_build", "post_build"]
    """``pre_build``: no message was built, so the row has neither STAN nor RRN."""
    code: str
    detail: str


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """A row as it is inserted: ``accepted`` with its references, or ``failed`` before a message was built."""

    request: SpendRequest
    """A ``FollowUpRecord`` unless the simulation is a spend."""
    original: Original | None = None
    """The sale of a follow-up."""
    stan: str | None = None
    rrn: str | None = None
    network_txn_id: str | None = None
    failed_ms: int | None = None
    failure: Failure | None = None

    @property
    def operation(self) -> Operation:
        """The kind of message."""
        return self.request.operation if isinstance(self.request, FollowUpRecord) else "spend"


ACTIVE: Final = "active"
"""State of a card whose spends are sent."""


class SaleIncrease(msgspec.Struct, frozen=True):
    """An approved amount that the network has to present."""

    simulation_id: str
    """Of the sale."""
    amount_minor: int


class StateChange(msgspec.Struct, frozen=True, kw_only=True):
    """The next state of a row, with the columns that it sets."""

    simulation_id: str
    state: Literal["sent", "failed", "decided"]
    sent_ms: int | None = None
    decided_ms: int | None = None
    failed_ms: int | None = None
    failure: Failure | None = None
    response_code: str | None = None
    approval_code: str | None = None
    approved_minor: int | None = None
    authorization_id: str | None = None
    increase: SaleIncrease | None = None


class PreparedFollowUp(msgspec.Struct, frozen=True, kw_only=True):
    """A requested follow-up with the references of its message, or with the reason why it must fail."""

    request: FollowUpRequest
    stan: str
    rrn: str
    network_txn_id: str
    failure: Failure | None = None


class RecordedSimulation(msgspec.Struct, frozen=True):
    """A row of a follow-up."""

    simulation: Simulation
    is_new: bool
    """``False`` if an earlier request with the same id inserted the row."""


class SimulationStore(Protocol):
    """Stores simulations. Methods that await the database raise ``DatabaseUnavailableError``."""

    async def take_stans(self, count: int) -> list[int]:
        """``count`` serial numbers that were never taken before, ascending."""

    async def insert(self, simulations: Sequence[Simulation]) -> None:
        """Insert spends. Returns after the commit."""

    async def insert_active(self, simulations: Sequence[Simulation]) -> Mapping[str, str]:
        """Insert the spends whose card is an active test card of their tenant. Returns the states of the
        cards by simulation id, after the commit; without a state, the tenant has no such card."""

    async def insert_follow_ups(
        self, follow_ups: Sequence[PreparedFollowUp], *, automatic: bool = False
    ) -> list[RecordedSimulation]:
        """Apply follow-ups to their sales and insert their rows. Returns after the commit. A follow-up of the
        network itself (``automatic``) that does not apply to its sale is left out, also from the result."""

    async def open_minor(self, simulation_id: str) -> int:
        """The amount of a sale that is still to be presented."""

    async def unanswered(self) -> list[Simulation]:
        """Reversals and presentments of the last ``FORWARD_RESUME_HOURS`` hours that have no answer."""

    def record(self, change: StateChange) -> None:
        """Write ``change`` in the background."""

    async def drain(self) -> None:
        """Wait until all changes are written or given up."""


def merge_changes(changes: Sequence[StateChange]) -> Sequence[StateChange]:
    """The last change of each simulation, with the instants of its earlier ones. ``decided`` is final."""
    newest: dict[str, StateChange] = {}
    for change in changes:
        before = newest.get(change.simulation_id)
        if before is not None and before.state == "decided":
            continue
        if before is not None:
            change = msgspec.structs.replace(
                change,
                sent_ms=change.sent_ms or before.sent_ms,
                failed_ms=change.failed_ms or before.failed_ms,
            )
        newest[change.simulation_id] = change
    return list(newest.values())
