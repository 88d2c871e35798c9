"""Follow-ups of the simulated network become rows: each is stated on the book that the one before has left.

Plain bookkeeping between what a transaction has read and what it will write, so that the same rules hold
for any store.
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
    follow,
    force_post,
    unsent_record,
)

_NOTHING_LEFT = Failure("pre_build", "nothing_left", "The network has nothing left to present of this sale.")


class FollowUpSequence:
    """Follow-ups of one transaction, stated one after the other on the books that the ones before have
    left."""

    def __init__(self, known: Mapping[str, Simulation], books: Mapping[str, SaleState]) -> None:
        self._known = dict(known)
        self._books = dict(books)
        self.followed: dict[str, AppliedFollowUp] = {}
        """The last entry of each sale, with whatever any of them did to its clock."""

    def open(self, follow_up: PreparedFollowUp) -> RecordedSimulation:
        """The row of ``draft``, or the one that an earlier request with its id has left."""
        id_ = follow_up.request.simulation_id
        known = self._known.get(id_)
        if known is not None:
            return RecordedSimulation(known, fresh=False)
        simulation = self._known[id_] = self._state(follow_up)
        return RecordedSimulation(simulation, fresh=True)

    def _state(self, follow_up: PreparedFollowUp) -> Simulation:
        request = follow_up.request
        if follow_up.failure is not None:
            return _refused(request, follow_up.failure)
        if isinstance(request, ForcePostRequest):
            return _stated(follow_up, None, force_post(request))
        followed = follow(request, self._books[request.original.request.simulation_id])
        if followed is None:
            return _refused(request, _NOTHING_LEFT)
        self._enter(request.original.request.simulation_id, followed)
        return _stated(follow_up, request.original, followed.record)

    def _enter(self, sale_id: str, followed: AppliedFollowUp) -> None:
        before = self.followed.get(sale_id)
        if before is not None and followed.clock == "keep":
            followed = msgspec.structs.replace(followed, clock=before.clock)
        self._books[sale_id], self.followed[sale_id] = followed.store, followed


def _stated(follow_up: PreparedFollowUp, original: Original | None, record: FollowUpRecord) -> Simulation:
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
