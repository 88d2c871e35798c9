"""Follow-ups of the simulated network become rows: each is stated on the book that the one before has left.

Plain bookkeeping between what a transaction has read and what it will write, so that the same rules hold
for any store.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from actors.network.simulations import Draft, Failure, Opened, Opening
from engine.simulation import (
    Followed,
    FollowUpRecord,
    FollowUpRequest,
    ForcePostRequest,
    Original,
    SaleBook,
    follow,
    force_post,
    unsaid,
)

_NOTHING_LEFT = Failure("pre_build", "nothing_left", "The network has nothing left to present of this sale.")


class Stating:
    """Follow-ups of one transaction, stated one after the other on the books that the ones before have
    left."""

    def __init__(self, known: Mapping[str, Opening], books: Mapping[str, SaleBook]) -> None:
        self._known = dict(known)
        self._books = dict(books)
        self.followed: dict[str, Followed] = {}
        """The last entry of each sale, with whatever any of them did to its clock."""

    def open(self, draft: Draft) -> Opened:
        """The row of ``draft``, or the one that an earlier request with its id has left."""
        id_ = draft.request.simulation_id
        known = self._known.get(id_)
        if known is not None:
            return Opened(known, fresh=False)
        opening = self._known[id_] = self._state(draft)
        return Opened(opening, fresh=True)

    def _state(self, draft: Draft) -> Opening:
        request = draft.request
        if draft.failure is not None:
            return _refused(request, draft.failure)
        if isinstance(request, ForcePostRequest):
            return _stated(draft, None, force_post(request))
        followed = follow(request, self._books[request.original.request.simulation_id])
        if followed is None:
            return _refused(request, _NOTHING_LEFT)
        self._enter(request.original.request.simulation_id, followed)
        return _stated(draft, request.original, followed.record)

    def _enter(self, sale_id: str, followed: Followed) -> None:
        before = self.followed.get(sale_id)
        if before is not None and followed.clock == "keep":
            followed = msgspec.structs.replace(followed, clock=before.clock)
        self._books[sale_id], self.followed[sale_id] = followed.book, followed


def _stated(draft: Draft, original: Original | None, record: FollowUpRecord) -> Opening:
    return Opening(
        request=record,
        original=original,
        stan=draft.stan,
        rrn=draft.rrn,
        network_txn_id=draft.network_txn_id,
    )


def _refused(request: FollowUpRequest, failure: Failure) -> Opening:
    original = None if isinstance(request, ForcePostRequest) else request.original
    return Opening(request=unsaid(request), original=original, failed_ms=request.accepted_ms, failure=failure)
