"""The simulated network's book: STANs, and one row for each simulation, moved along as the wire speaks
(spec 3.4).

A row holds its STAN and RRN before the first byte of its message leaves: ``open`` and ``follow`` return
after the commit. What the network remembers of a sale is entered in the same transaction as the row that
changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from engine.simulation import FollowUpRecord, FollowUpRequest, Operation, Original, SpendRequest


class Failure(msgspec.Struct, frozen=True):
    """Why a simulation failed (contract section 6)."""

    stage: Literal["pre_build", "post_build"]
    code: str
    detail: str


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """A new row: ``accepted`` with its references, or ``failed`` before any message was built, without
    them."""

    request: SpendRequest
    """What the row keeps; a ``FollowUpRecord`` unless it is a spend."""
    original: Original | None = None
    """The sale of a child."""
    stan: str | None = None
    rrn: str | None = None
    network_txn_id: str | None = None
    failed_ms: int | None = None
    failure: Failure | None = None

    @property
    def operation(self) -> Operation:
        """What the row's message does."""
        return self.request.operation if isinstance(self.request, FollowUpRecord) else "spend"


class SaleIncrease(msgspec.Struct, frozen=True):
    """So much more of a sale is approved, and will be presented."""

    simulation_id: str
    """Of the sale."""
    amount_minor: int


class StateChange(msgspec.Struct, frozen=True, kw_only=True):
    """A row's next state, with all that it then holds."""

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
    """A follow-up that is about to be stated, under these references, or the reason why it will not be."""

    request: FollowUpRequest
    stan: str
    rrn: str
    network_txn_id: str
    failure: Failure | None = None


class RecordedSimulation(msgspec.Struct, frozen=True):
    """``fresh`` unless the simulation had been opened by an earlier request with its id."""

    simulation: Simulation
    fresh: bool


class SimulationStore(Protocol):
    """Where simulations are kept."""

    async def take_stans(self, count: int) -> list[int]:
        """``count`` numbers that have never been taken, ascending."""

    async def open(self, simulations: Sequence[Simulation]) -> None:
        """Makes new rows of spends durable."""

    async def follow(
        self, follow_ups: Sequence[PreparedFollowUp], *, automatic: bool = False
    ) -> list[RecordedSimulation]:
        """States follow-ups and makes their rows durable. The network's own (``automatic``) leave no row
        when there is nothing for them to be about; those are missing in the result."""

    async def open_minor(self, simulation_id: str) -> int:
        """What of a sale is still to be presented."""

    async def unanswered(self) -> list[Simulation]:
        """Reversals and presentments that were opened lately and have no answer yet."""

    def move(self, move: StateChange) -> None:
        """Records ``move``, soon."""

    async def drain(self) -> None:
        """Waits until every move is recorded or given up."""


def merge_changes(changes: Sequence[StateChange]) -> Sequence[StateChange]:
    """The last move of each simulation, with the instants of its earlier ones. What is decided stays so."""
    newest: dict[str, StateChange] = {}
    for move in changes:
        before = newest.get(move.simulation_id)
        if before is not None and before.state == "decided":
            continue
        if before is not None:
            move = msgspec.structs.replace(
                move, sent_ms=move.sent_ms or before.sent_ms, failed_ms=move.failed_ms or before.failed_ms
            )
        newest[move.simulation_id] = move
    return list(newest.values())
