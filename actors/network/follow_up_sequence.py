"""Applies the follow-ups of one transaction to their sales, each to the state that the one before has left.

Works on values that the transaction has read and is going to write, so the rules are the same for all stores.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from actors.network.simulation_store import Failure, PreparedFollowUp, RecordedSimulation, Simulation
from engine.simulation import (
    AppliedFollowUp,
    FollowUpRecord,
    FollowUpRequest,
    ForcePostRequest,
    Original,
    SaleState,
    apply_follow_up,
    force_post_record,
    unsent_record,
)

_NOTHING_LEFT = Failure("pre_build", "nothing_left", "The network has nothing left to present of this sale.")


class FollowUpSequence:
    """``known``: simulations that are stored already, by id. ``sales``: the states of sales, by simulation
    id."""

    def __init__(self, known: Mapping[str, Simulation], sales: Mapping[str, SaleState]) -> None:
        self._known = dict(known)
        self._sales = dict(sales)
        self.applied: dict[str, AppliedFollowUp] = {}
        """The last follow-up applied to each sale, with the effect of all of them on its schedule."""

    def apply(self, follow_up: PreparedFollowUp) -> RecordedSimulation:
        """The row of ``follow_up``, or the stored one that an earlier request with its id has left."""
        id_ = follow_up.request.simulation_id
        known = self._known.get(id_)
        if known is not None:
            return RecordedSimulation(known, is_new=False)
        simulation = self._known[id_] = self._simulation(follow_up)
        return RecordedSimulation(simulation, is_new=True)

    def _simulation(self, follow_up: PreparedFollowUp) -> Simulation:
        request = follow_up.request
        if follow_up.failure is not None:
            return _refused(request, follow_up.failure)
        if isinstance(request, ForcePostRequest):
            return _accepted(follow_up, None, force_post_record(request))
        applied = apply_follow_up(request, self._sales[request.original.request.simulation_id])
        if applied is None:
            return _refused(request, _NOTHING_LEFT)
        self._note(request.original.request.simulation_id, applied)
        return _accepted(follow_up, request.original, applied.record)

    def _note(self, sale_id: str, applied: AppliedFollowUp) -> None:
        before = self.applied.get(sale_id)
        if before is not None and applied.schedule == "keep":
            applied = msgspec.structs.replace(applied, schedule=before.schedule)
        self._sales[sale_id], self.applied[sale_id] = applied.sale, applied


def _accepted(follow_up: PreparedFollowUp, original: Original | None, record: FollowUpRecord) -> Simulation:
    return Simulation(
        request=record,
        original=original,
        stan=follow_up.stan,
        rrn=follow_up.rrn,
        network_txn_id=follow_up.network_txn_id,
    )


def _refused(request: FollowUpRequest, failure: Failure) -> Simulation:
    original = None if isinstance(request, ForcePostRequest) else request.original
    return Simulation(
        request=unsent_record(request), original=original, failed_ms=request.accepted_ms, failure=failure
    )
