"""Follow-ups of simulated spends: increment, reversal, clearing, lapse.

All except the lapse are child simulations, which send a message over the simulated network. The id of a child
is derived from the idempotency key, so a repetition of the request finds the same child.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

from starlette.responses import Response

from api.database.pool import Connection, connected
from api.http.fields import Id, Instant
from api.http.problems import Refusal
from api.http.refusals import refusals
from api.http.validation import View
from api.operations.call import NO_MEMBERS, Call, Empty, KeyedCall, PathId
from api.operations.route import new_router
from api.operations.submission import submit
from api.simulations.inputs import ClearInput, IncrementInput, ReverseInput
from api.simulations.originals import ParentSimulation, find
from api.simulations.starting import start
from engine.commands import Expire, reference_of_id
from engine.ids import key_of
from engine.instant import to_text
from engine.simulation import (
    Acceptance,
    ClearingRequest,
    IncrementRequest,
    ReversalRequest,
    SaleFollowUpRequest,
)

router = new_router("Simulation")

_APPROVED: Final = ("not-found", "child-simulation", "simulation-not-approved")
_ALL_HELD: Final = ReverseInput()
_ALL_LEFT: Final = ClearInput()
_NAMED: Final = (*_APPROVED, "network-transaction-unknown", "wire-identity-unknown")


class ChildView(View):
    """An accepted follow-up. Null `stan` and `rrn`: refused before any message was built."""

    simulation_id: Id
    parent_simulation_id: Id
    accepted_at: Instant
    stan: str | None
    rrn: str | None
    network_txn_id: str | None


class LapsedView(View):
    """A hold that lapsed before its expiry, on request."""

    simulation_id: Id
    authorization_id: Id
    status: Literal["lapsed"]


@router.post(
    "/v1/simulated-spends/{id}/increment",
    status_code=202,
    response_model=ChildView,
    responses=refusals(*_NAMED, "refund-simulation", "currency-mismatch", "sale-finished", "card-not-active"),
)
async def increment_simulated_spend(
    simulation_id: PathId, given: IncrementInput, call: KeyedCall
) -> Response:
    """Raise the hold of a simulated spend: one incremental authorization over the wire.

    Test mode only. `raise_by_amount` is added to the hold; it is not the new total. The spend must be decided
    and approved, neither fully cleared nor fully reversed, and its card must be active. A lapsed hold can be
    raised. The answer names the child simulation, whose GET shows the decision. A declined increment does not
    change the original.
    """

    def request(parent: ParentSimulation, id_: str, now_ms: int, fingerprint: bytes) -> SaleFollowUpRequest:
        parent.require_purchase()
        parent.require_currency(given.raise_by_amount)
        parent.require_approved()
        parent.require_unfinished()
        original = parent.original()
        parent.require_active_card()
        return IncrementRequest(
            simulation_id=id_,
            accepted_ms=now_ms,
            fingerprint=fingerprint,
            original=original,
            amount_minor=given.raise_by_amount.minor,
        )

    return await _follow(call, simulation_id, request)


@router.post(
    "/v1/simulated-spends/{id}/reverse",
    status_code=202,
    response_model=ChildView,
    responses=refusals(
        *_NAMED, "refund-simulation", "currency-mismatch", "amount-exceeds-hold", "nothing-held"
    ),
)
async def reverse_simulated_spend(
    simulation_id: PathId, call: KeyedCall, given: ReverseInput = _ALL_HELD
) -> Response:
    """Reverse a simulated spend, fully or in part: one reversal over the wire.

    Test mode only. Without `lower_by_amount` the whole remaining hold is released, which emits
    `ledger.hold.released`; a partial reversal emits no event. The card may be in any state. In gateway mode a
    reversal lowers the amount still to be posted and emits `authorization.posting_instruction.released`.
    """
    lower_by = given.lower_by_amount

    def request(parent: ParentSimulation, id_: str, now_ms: int, fingerprint: bytes) -> SaleFollowUpRequest:
        parent.require_purchase()
        parent.require_currency(lower_by)
        parent.require_approved()
        parent.require_held(lower_by)
        return ReversalRequest(
            simulation_id=id_,
            accepted_ms=now_ms,
            fingerprint=fingerprint,
            original=parent.original(),
            amount_minor=None if lower_by is None else lower_by.minor,
        )

    return await _follow(call, simulation_id, request)


@router.post(
    "/v1/simulated-spends/{id}/clear",
    status_code=202,
    response_model=ChildView,
    responses=refusals(*_NAMED, "currency-mismatch", "nothing-to-clear"),
)
async def clear_simulated_spend(
    simulation_id: PathId, call: KeyedCall, given: ClearInput = _ALL_LEFT
) -> Response:
    """Clear a simulated spend: one presentment over the wire.

    Test mode only. Without `amount`, the whole amount not yet presented is cleared. Several presentments,
    presentments above the hold, and presentments after a lapse or a reversal all post. After a presentment
    that is not `final`, the rest stays held. The network presents an approved purchase by itself after a
    while, unless its hold has lapsed.
    """
    amount = given.amount

    def request(parent: ParentSimulation, id_: str, now_ms: int, fingerprint: bytes) -> SaleFollowUpRequest:
        parent.require_currency(amount)
        parent.require_approved()
        parent.require_open(amount)
        return ClearingRequest(
            simulation_id=id_,
            accepted_ms=now_ms,
            fingerprint=fingerprint,
            original=parent.original(),
            amount_minor=None if amount is None else amount.minor,
            final=given.final,
        )

    return await _follow(call, simulation_id, request)


@router.post(
    "/v1/simulated-spends/{id}/expire",
    response_model=LapsedView,
    responses=refusals(*_APPROVED, "nothing-held"),
)
async def expire_simulated_spend(
    simulation_id: PathId, call: KeyedCall, _body: Empty = NO_MEMBERS
) -> Response:
    """Let the hold of a simulated spend lapse now, as if its time had passed.

    Test mode only. A lapse emits no event; `available` rises. The simulated network does not present a lapsed
    sale by itself; an explicit `clear` still posts. In gateway mode there is no hold to lapse.
    """
    caller = call.caller
    async with connected(call.services.pool) as connection:
        parent = await find(connection, simulation_id, caller.tenant_id)
    parent.require_approved()
    if parent.authorization_id is None:
        raise Refusal("nothing-held")
    id_ = call.services.new_id()
    command = Expire(
        id=id_,
        command_key=key_of(id_),
        card_id=parent.request.card_id,
        tenant_id=caller.tenant_id,
        live=caller.live,
        references=(reference_of_id(parent.authorization_id),),
    )
    return await submit(call, command, {"simulation_id": simulation_id})


Build = Callable[[ParentSimulation, str, int, bytes], SaleFollowUpRequest]
"""Checks the parent and returns the request for the network. Arguments: the parent, the child's id, the
current time, and the fingerprint of the caller's request. Raises ``Refusal``."""


async def _follow(call: Call, parent_id: str, build: Build) -> Response:
    """Start the child that ``build`` makes, unless the key has started one already."""

    async def judge(
        connection: Connection, child_id: str, now_ms: int, fingerprint: bytes
    ) -> SaleFollowUpRequest:
        parent = await find(connection, parent_id, call.caller.tenant_id)
        return build(parent, child_id, now_ms, fingerprint)

    return await start(call, parent_id, judge, partial(_shown, parent_id=parent_id))


def _shown(accepted: Acceptance, *, parent_id: str) -> dict[str, Any]:
    return {
        "simulation_id": accepted.simulation_id,
        "parent_simulation_id": parent_id,
        "accepted_at": to_text(accepted.accepted_ms),
        "stan": accepted.stan,
        "rrn": accepted.rrn,
        "network_txn_id": accepted.network_txn_id,
    }
