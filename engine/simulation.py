"""Simulations: what a caller asks of the simulated network, what it gets back at once, and what the network
remembers of a sale (spec 2.7, 3.4; contract, section 6).

The network is a client like any other: it knows what it has sent and what it was answered, never the hold.
``follow`` is its bookkeeping, so that the amounts it states and presents by itself add up.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from engine.commands import Channel

Scenario = Literal[
    "partial_approval", "force_stip_timeout", "delegated_timeout", "cvv2_presented", "cavv_presented"
]
Operation = Literal["spend", "increment", "reversal", "clearing"]


class SpendRequest(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="request", tag="spend"
):
    """One accepted POST /v1/simulated-spends; ``simulation_id`` carries the card's shard."""

    simulation_id: str
    tenant_id: str
    card_id: str
    amount_minor: int
    currency: str
    mcc: str
    merchant_name: str
    merchant_country: str
    channel: Channel
    accepted_ms: int
    kind: Literal["purchase", "refund"] = "purchase"
    entry_mode: Literal["contactless", "chip", "magstripe", "manual"] | None = None
    scenario: Scenario | None = None
    approved_amount_minor: int | None = None
    """The terminal's cap on a partial approval."""
    mit: bool = False
    cvv2: str | None = None
    """Travels in the message only: never stored."""
    auth_value: str | None = None
    """Travels in the message only: never stored."""
    threeds_ref: str | None = None

    def __repr__(self) -> str:
        # The generated one would print CVV2 and authentication values into any log or traceback.
        return f"SpendRequest({self.simulation_id})"


class Original(msgspec.Struct, frozen=True, kw_only=True):
    """The sale that a child belongs to, as its row has it. The row never changes."""

    request: SpendRequest
    """Column ``request``; secrets are not in it and not needed."""
    stan: str
    rrn: str
    network_txn_id: str


class _Child(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="request"):
    simulation_id: str
    """A simulation is started once: a second request with this id gets the acceptance of the first. Carries
    the card's shard."""
    accepted_ms: int
    fingerprint: bytes = b""
    """Tells a caller's repetition of its request from another one under the same id."""


class IncrementRequest(_Child, frozen=True, kw_only=True, tag="increment"):
    """Raise what a sale has authorized by ``amount_minor``."""

    original: Original
    amount_minor: int


class ReversalRequest(_Child, frozen=True, kw_only=True, tag="reversal"):
    """Lower what a sale still holds by ``amount_minor``; ``None`` gives all of it back."""

    original: Original
    amount_minor: int | None = None


class ClearingRequest(_Child, frozen=True, kw_only=True, tag="clearing"):
    """Present a sale or a refund; without ``amount_minor`` all that has not been presented."""

    original: Original
    amount_minor: int | None = None
    final: bool = True


class ForcePostRequest(_Child, frozen=True, kw_only=True, tag="force_post"):
    """Present a sale that nobody was asked about."""

    tenant_id: str
    card_id: str
    amount_minor: int
    currency: str
    mcc: str
    merchant_name: str
    merchant_country: str
    channel: Channel = "pos"


ChildRequest = IncrementRequest | ReversalRequest | ClearingRequest
FollowUpRequest = ChildRequest | ForcePostRequest
SimulationRequest = SpendRequest | FollowUpRequest


class FollowUpRecord(SpendRequest, frozen=True, omit_defaults=True, kw_only=True, tag="spend"):
    """What the row of a follow-up keeps as its request: readable as a ``SpendRequest`` (the original's, with
    the amount of this message), and enough to say the message again."""

    operation: Operation
    remaining_minor: int | None = None
    """DE95, of a partial reversal."""
    sequence: int = 1
    final: bool = True
    fingerprint: bytes = b""


class SaleState(msgspec.Struct, frozen=True, gc=False):
    """What the network remembers of a sale: what it has still to present, approved and incremented less
    reversed and presented, and how many presentments it has numbered."""

    open_minor: int = 0
    presentments: int = 0


class AppliedFollowUp(msgspec.Struct, frozen=True):
    """A follow-up as it will be stated, and the sale's book with it."""

    record: FollowUpRecord
    store: SaleState
    clock: Literal["keep", "restart", "stop"]
    """What becomes of the time after which the sale is presented by itself."""


def follow(request: ChildRequest, store: SaleState) -> AppliedFollowUp | None:
    """State ``request`` on a sale of which ``book`` is known; ``None`` when there is nothing left that it
    could be about.

    Reversals and presentments are entered at once, because no issuer can decline them; an increment is
    entered when it is approved.
    """
    if isinstance(request, IncrementRequest):
        record = _record(request, "increment", request.amount_minor)
        return AppliedFollowUp(record, store, "restart")
    if isinstance(request, ReversalRequest):
        return _reverse(request, store)
    return _clear(request, store)


def unsent_record(request: FollowUpRequest) -> FollowUpRecord:
    """The record of a request that will not be stated."""
    if isinstance(request, ForcePostRequest):
        return force_post(request)
    operation: Operation = "increment"
    if not isinstance(request, IncrementRequest):
        operation = "reversal" if isinstance(request, ReversalRequest) else "clearing"
    return _record(request, operation, request.amount_minor or 0)


def force_post(request: ForcePostRequest) -> FollowUpRecord:
    """A presentment of its own: the first and the last one of its ARN."""
    return FollowUpRecord(
        simulation_id=request.simulation_id,
        tenant_id=request.tenant_id,
        card_id=request.card_id,
        amount_minor=request.amount_minor,
        currency=request.currency,
        mcc=request.mcc,
        merchant_name=request.merchant_name,
        merchant_country=request.merchant_country,
        channel=request.channel,
        accepted_ms=request.accepted_ms,
        operation="clearing",
        fingerprint=request.fingerprint,
    )


def _reverse(request: ReversalRequest, store: SaleState) -> AppliedFollowUp | None:
    if not store.open_minor:
        return None
    asked_minor = store.open_minor if request.amount_minor is None else request.amount_minor
    lowered_minor = min(asked_minor, store.open_minor)
    remaining_minor = store.open_minor - lowered_minor
    record = _record(request, "reversal", lowered_minor, remaining_minor=remaining_minor or None)
    after = SaleState(remaining_minor, store.presentments)
    return AppliedFollowUp(record, after, "restart" if remaining_minor else "stop")


def _clear(request: ClearingRequest, store: SaleState) -> AppliedFollowUp | None:
    """A refund has nothing open: it is presented as it was asked for."""
    sale = request.original.request
    whole_minor = sale.amount_minor if sale.kind == "refund" else store.open_minor
    amount_minor = whole_minor if request.amount_minor is None else request.amount_minor
    if not amount_minor:
        return None
    open_minor = 0 if request.final else max(0, store.open_minor - amount_minor)
    sequence = store.presentments + 1
    record = _record(request, "clearing", amount_minor, sequence=sequence, final=request.final)
    return AppliedFollowUp(record, SaleState(open_minor, sequence), "keep" if open_minor else "stop")


def _record(
    request: ChildRequest,
    operation: Operation,
    amount_minor: int,
    *,
    remaining_minor: int | None = None,
    sequence: int = 1,
    final: bool = True,
) -> FollowUpRecord:
    sale = request.original.request
    return FollowUpRecord(
        simulation_id=request.simulation_id,
        tenant_id=sale.tenant_id,
        card_id=sale.card_id,
        amount_minor=amount_minor,
        currency=sale.currency,
        mcc=sale.mcc,
        merchant_name=sale.merchant_name,
        merchant_country=sale.merchant_country,
        channel=sale.channel,
        accepted_ms=request.accepted_ms,
        kind=sale.kind,
        entry_mode=sale.entry_mode,
        mit=sale.mit,
        operation=operation,
        remaining_minor=remaining_minor,
        sequence=sequence,
        final=final,
        fingerprint=request.fingerprint,
    )


class Acceptance(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The simulation is recorded. ``stan`` and ``rrn`` are both null when it was refused before any message
    was built."""

    simulation_id: str
    accepted_ms: int
    stan: str | None = None
    rrn: str | None = None
    network_txn_id: str | None = None
