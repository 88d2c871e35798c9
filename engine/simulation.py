"""Simulations: requests to the simulated network, acceptances, and the network's own record of each sale.

The simulated network is a client like any other: it knows the messages that it sent and the answers that it
got, never the hold. ``apply_follow_up`` keeps its record of a sale, so the amounts of its reversals and
presentments add up.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from engine.commands import Channel
from engine.currencies import MerchantAmount, billing_share_minor, merchant_share_minor

Scenario = Literal[
    "partial_approval", "force_stip_timeout", "delegated_timeout", "cvv2_presented", "cavv_presented"
]
Operation = Literal["spend", "increment", "reversal", "clearing"]


class SpendRequest(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="request", tag="spend"
):
    """One accepted POST /v1/simulated-spends. ``simulation_id`` carries the card's shard."""

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
    """The terminal's cap on a partial approval, in the currency of the card."""
    merchant_amount: MerchantAmount | None = None
    """The merchant's amount, which the network converts to ``amount_minor``."""
    merchant_id: str | None = None
    """DE42 without padding; ``None`` for the acquirer's own merchant."""
    mit: bool = False
    cvv2: str | None = None
    """Sent in the message only, never stored."""
    auth_value: str | None = None
    """Sent in the message only, never stored."""
    threeds_ref: str | None = None

    def __repr__(self) -> str:
        # The generated repr would expose CVV2 and authentication values in logs and tracebacks.
        return f"SpendRequest({self.simulation_id})"


class Original(msgspec.Struct, frozen=True, kw_only=True):
    """The sale of a follow-up, as its row was inserted."""

    request: SpendRequest
    """Column ``request``, without CVV2 and authentication values."""
    stan: str
    rrn: str
    network_txn_id: str


class _FollowUp(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="request"):
    simulation_id: str
    """A simulation starts once: a second request with this id gets the acceptance of the first one. Carries
    the card's shard."""
    accepted_ms: int
    fingerprint: bytes = b""
    """Equal for repetitions of one request; differs for another request with the same id."""


class IncrementRequest(_FollowUp, frozen=True, kw_only=True, tag="increment"):
    """Raise the authorized amount of a sale by ``amount_minor``."""

    original: Original
    amount_minor: int


class ReversalRequest(_FollowUp, frozen=True, kw_only=True, tag="reversal"):
    """Reverse ``amount_minor`` of the open amount of a sale; ``None`` reverses all of it."""

    original: Original
    amount_minor: int | None = None


class ClearingRequest(_FollowUp, frozen=True, kw_only=True, tag="clearing"):
    """Present ``amount_minor`` of a sale or a refund; ``None`` presents all of the open amount."""

    original: Original
    amount_minor: int | None = None
    final: bool = True


class ForcePostRequest(_FollowUp, frozen=True, kw_only=True, tag="force_post"):
    """Force post: present a sale without prior authorization."""

    tenant_id: str
    card_id: str
    amount_minor: int
    currency: str
    mcc: str
    merchant_name: str
    merchant_country: str
    channel: Channel = "pos"
    merchant_amount: MerchantAmount | None = None


SaleFollowUpRequest = IncrementRequest | ReversalRequest | ClearingRequest
FollowUpRequest = SaleFollowUpRequest | ForcePostRequest
SimulationRequest = SpendRequest | FollowUpRequest


class FollowUpRecord(SpendRequest, frozen=True, omit_defaults=True, kw_only=True, tag="spend"):
    """The stored request of a follow-up. Readable as a ``SpendRequest`` (the sale's, with the amount of this
    message), and sufficient to build the message again."""

    operation: Operation
    remaining_minor: int | None = None
    """DE95 of a partial reversal."""
    sequence: int = 1
    final: bool = True
    fingerprint: bytes = b""


class SaleState(msgspec.Struct, frozen=True, gc=False):
    """The network's own record of a sale."""

    open_minor: int = 0
    """Still to be presented: approved and incremented less reversed and presented."""
    presentments: int = 0
    """Number of presentments; the last one has this sequence number."""


class AppliedFollowUp(msgspec.Struct, frozen=True):
    """A follow-up that will be sent, and the state of its sale after it."""

    record: FollowUpRecord
    sale: SaleState
    schedule: Literal["keep", "restart", "stop"]
    """Effect on the time of automatic clearing."""


def apply_follow_up(request: SaleFollowUpRequest, sale: SaleState) -> AppliedFollowUp | None:
    """Apply ``request`` to ``sale``. ``None`` if the sale has no open amount to reverse or present.

    Reversals and presentments change the sale at once, because issuers cannot decline them. An increment
    changes it when it is approved.
    """
    if isinstance(request, IncrementRequest):
        record = _record(request, "increment", request.amount_minor)
        return AppliedFollowUp(record, sale, "restart")
    if isinstance(request, ReversalRequest):
        return _reverse(request, sale)
    return _clear(request, sale)


def unsent_record(request: FollowUpRequest) -> FollowUpRecord:
    """The record of a follow-up that is refused before a message is built."""
    if isinstance(request, ForcePostRequest):
        return force_post_record(request)
    operation: Operation = "increment"
    if not isinstance(request, IncrementRequest):
        operation = "reversal" if isinstance(request, ReversalRequest) else "clearing"
    return _record(request, operation, request.amount_minor or 0)


def force_post_record(request: ForcePostRequest) -> FollowUpRecord:
    """The record of a force post: the only presentment of its ARN."""
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
        merchant_amount=request.merchant_amount,
        accepted_ms=request.accepted_ms,
        operation="clearing",
        fingerprint=request.fingerprint,
    )


def _reverse(request: ReversalRequest, sale: SaleState) -> AppliedFollowUp | None:
    if not sale.open_minor:
        return None
    wanted_minor = sale.open_minor if request.amount_minor is None else request.amount_minor
    lowered_minor = min(wanted_minor, sale.open_minor)
    remaining_minor = _expressible_minor(request.original.request, sale.open_minor - lowered_minor)
    lowered_minor = sale.open_minor - remaining_minor
    record = _record(request, "reversal", lowered_minor, remaining_minor=remaining_minor or None)
    after = SaleState(remaining_minor, sale.presentments)
    return AppliedFollowUp(record, after, "restart" if remaining_minor else "stop")


def _clear(request: ClearingRequest, sale: SaleState) -> AppliedFollowUp | None:
    """A refund has no open amount: without ``amount_minor`` its whole amount is presented."""
    spend = request.original.request
    whole_minor = spend.amount_minor if spend.kind == "refund" else sale.open_minor
    amount_minor = whole_minor if request.amount_minor is None else request.amount_minor
    if not amount_minor:
        return None
    open_minor = 0 if request.final else max(0, sale.open_minor - amount_minor)
    sequence = sale.presentments + 1
    # The only presentment presents the whole sale, whatever it bills: rates have moved since the
    # authorization.
    presented_minor = whole_minor if request.final and sequence == 1 else amount_minor
    record = _record(
        request,
        "clearing",
        amount_minor,
        presented_minor=presented_minor or amount_minor,
        sequence=sequence,
        final=request.final,
    )
    return AppliedFollowUp(record, SaleState(open_minor, sequence), "keep" if open_minor else "stop")


def _expressible_minor(spend: SpendRequest, remaining_minor: int) -> int:
    """The amount that the issuer reads from DE95, which states ``remaining_minor`` in the merchant's
    currency."""
    merchant = spend.merchant_amount
    if merchant is None:
        return remaining_minor
    share_minor = merchant_share_minor(remaining_minor, merchant.amount_minor, spend.amount_minor)
    return min(remaining_minor, billing_share_minor(share_minor, merchant, spend.amount_minor))


def _merchant_share(spend: SpendRequest, amount_minor: int) -> MerchantAmount | None:
    """The share of the merchant amount that belongs to ``amount_minor`` of the sale."""
    merchant = spend.merchant_amount
    if merchant is None or not amount_minor:
        return None
    share_minor = merchant_share_minor(amount_minor, merchant.amount_minor, spend.amount_minor)
    return MerchantAmount(max(1, share_minor), merchant.currency)


def _record(
    request: SaleFollowUpRequest,
    operation: Operation,
    amount_minor: int,
    *,
    presented_minor: int | None = None,
    remaining_minor: int | None = None,
    sequence: int = 1,
    final: bool = True,
) -> FollowUpRecord:
    spend = request.original.request
    return FollowUpRecord(
        simulation_id=request.simulation_id,
        tenant_id=spend.tenant_id,
        card_id=spend.card_id,
        amount_minor=amount_minor,
        currency=spend.currency,
        mcc=spend.mcc,
        merchant_name=spend.merchant_name,
        merchant_country=spend.merchant_country,
        channel=spend.channel,
        accepted_ms=request.accepted_ms,
        kind=spend.kind,
        entry_mode=spend.entry_mode,
        merchant_id=spend.merchant_id,
        mit=spend.mit,
        merchant_amount=_merchant_share(spend, amount_minor if presented_minor is None else presented_minor),
        operation=operation,
        remaining_minor=remaining_minor,
        sequence=sequence,
        final=final,
        fingerprint=request.fingerprint,
    )


class Acceptance(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The simulation is stored. ``stan`` and ``rrn`` are both null if it failed before a message was
    built."""

    simulation_id: str
    accepted_ms: int
    stan: str | None = None
    rrn: str | None = None
    network_txn_id: str | None = None


class SpendOutcome(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The answer to a spend whose card the network checked: the acceptance, or the state of a card that is
    not active. Without both, the tenant has no such test card."""

    acceptance: Acceptance | None = None
    card_state: str | None = None
