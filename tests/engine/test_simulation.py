"""The simulated network's record of a sale: amounts add up, and presentments have distinct numbers."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.currencies import MerchantAmount, billing_share_minor, merchant_share_minor
from engine.simulation import (
    ClearingRequest,
    FollowUpRecord,
    ForcePostRequest,
    IncrementRequest,
    Original,
    ReversalRequest,
    SaleFollowUpRequest,
    SaleState,
    SimulationRequest,
    SpendRequest,
    apply_follow_up,
    force_post_record,
    unsent_record,
)


def sale(**changes: Any) -> Original:
    values: dict[str, Any] = {
        "simulation_id": "sale", "tenant_id": "t", "card_id": "c", "amount_minor": 100_00, "currency": "EUR",
        "mcc": "5411", "merchant_name": "Corner shop", "merchant_country": "IE", "channel": "ecommerce",
        "accepted_ms": 1, "scenario": "cvv2_presented", "cvv2": "123", "mit": True,
    }  # fmt: skip
    return Original(request=SpendRequest(**(values | changes)), stan="000001", rrn="r", network_txn_id="SN1")


def reversal(amount_minor: int | None = None) -> ReversalRequest:
    return ReversalRequest(simulation_id="child", accepted_ms=2, original=sale(), amount_minor=amount_minor)


def clearing(
    amount_minor: int | None = None, final: bool = True, kind: Literal["purchase", "refund"] = "purchase"
) -> ClearingRequest:
    return ClearingRequest(
        simulation_id="child",
        accepted_ms=2,
        original=sale(kind=kind),
        amount_minor=amount_minor,
        final=final,
    )


INCREMENT = IncrementRequest(simulation_id="child", accepted_ms=2, original=sale(), amount_minor=5_00)

# Request and sale; then amount, remaining amount (DE95), the sale after it, and the effect on its schedule.
ROWS: list[tuple[SaleFollowUpRequest, SaleState, int, int | None, SaleState, str]] = [
    (INCREMENT, SaleState(100_00, 1), 5_00, None, SaleState(100_00, 1), "restart"),
    (INCREMENT, SaleState(), 5_00, None, SaleState(), "restart"),
    (reversal(), SaleState(100_00, 1), 100_00, None, SaleState(0, 1), "stop"),
    (reversal(30_00), SaleState(100_00), 30_00, 70_00, SaleState(70_00), "restart"),
    (reversal(100_00), SaleState(100_00), 100_00, None, SaleState(0), "stop"),
    (reversal(200_00), SaleState(100_00), 100_00, None, SaleState(0), "stop"),
    (clearing(), SaleState(100_00), 100_00, None, SaleState(0, 1), "stop"),
    (clearing(40_00), SaleState(100_00, 2), 40_00, None, SaleState(0, 3), "stop"),
    (clearing(40_00, final=False), SaleState(100_00), 40_00, None, SaleState(60_00, 1), "keep"),
    (clearing(100_00, final=False), SaleState(100_00), 100_00, None, SaleState(0, 1), "stop"),
    (clearing(150_00, final=False), SaleState(100_00), 150_00, None, SaleState(0, 1), "stop"),
    (clearing(10_00), SaleState(0, 1), 10_00, None, SaleState(0, 2), "stop"),
    (clearing(kind="refund"), SaleState(), 100_00, None, SaleState(0, 1), "stop"),
    (clearing(10_00, kind="refund"), SaleState(), 10_00, None, SaleState(0, 1), "stop"),
]


@pytest.mark.parametrize(("request_", "state", "amount_minor", "remaining", "after", "schedule"), ROWS)
def test_follow_up_changes_the_sale(
    request_: SaleFollowUpRequest,
    state: SaleState,
    amount_minor: int,
    remaining: int | None,
    after: SaleState,
    schedule: str,
) -> None:
    applied = apply_follow_up(request_, state)
    assert applied is not None
    assert (applied.record.amount_minor, applied.record.remaining_minor) == (amount_minor, remaining)
    assert (applied.sale, applied.schedule) == (after, schedule)


@pytest.mark.parametrize("request_", [reversal(), reversal(5_00), clearing()])
def test_follow_up_of_a_closed_sale_does_not_apply(request_: SaleFollowUpRequest) -> None:
    assert apply_follow_up(request_, SaleState(0, 3)) is None
    assert unsent_record(request_).amount_minor == (request_.amount_minor or 0)


def test_stored_record_reads_as_the_sale_with_the_amount_of_the_follow_up() -> None:
    applied = apply_follow_up(clearing(40_00, final=False), SaleState(100_00, 6))
    assert applied is not None
    stored = msgspec.json.encode(applied.record)
    assert msgspec.json.decode(stored, type=FollowUpRecord) == applied.record
    shown = msgspec.json.decode(stored, type=SpendRequest)
    assert (shown.simulation_id, shown.amount_minor, shown.channel) == ("child", 40_00, "ecommerce")
    assert (shown.scenario, shown.cvv2, shown.mit) == (None, None, True)
    assert (applied.record.sequence, applied.record.final, applied.record.operation) == (
        7,
        False,
        "clearing",
    )


YEN = MerchantAmount(1000, "JPY")
ABROAD = sale(amount_minor=6_13, merchant_amount=YEN)


def abroad(kind: type[ClearingRequest | ReversalRequest], amount_minor: int | None, **more: Any) -> Any:
    return kind(simulation_id="child", accepted_ms=2, original=ABROAD, amount_minor=amount_minor, **more)


@pytest.mark.parametrize(
    ("request_", "state", "yen"),
    [
        (abroad(ClearingRequest, None), SaleState(6_13), 1000),
        (abroad(ClearingRequest, 6_40), SaleState(6_13), 1000),
        (abroad(ClearingRequest, None), SaleState(3_00), 489),
        (abroad(ClearingRequest, 3_00, final=False), SaleState(6_13), 489),
        (abroad(ClearingRequest, 3_13), SaleState(3_13, 1), 510),
        (abroad(ClearingRequest, 5_00), SaleState(0), 815),
        (abroad(ReversalRequest, None), SaleState(6_13), 1000),
    ],
    ids=["whole", "at another rate", "approved in part", "first part", "last part", "late", "reversal"],
)
def test_follow_up_has_its_share_of_the_merchant_amount(
    request_: SaleFollowUpRequest, state: SaleState, yen: int
) -> None:
    applied = apply_follow_up(request_, state)
    assert applied is not None
    assert applied.record.merchant_amount == MerchantAmount(yen, "JPY")


@given(st.integers(1, 6_13), st.integers(1, 5000))
def test_partial_reversal_leaves_an_amount_that_its_message_can_state(lowered_minor: int, yen: int) -> None:
    merchant = MerchantAmount(yen, "JPY")
    original = sale(amount_minor=6_13, merchant_amount=merchant)
    request_ = ReversalRequest(
        simulation_id="c", accepted_ms=2, original=original, amount_minor=lowered_minor
    )
    applied = apply_follow_up(request_, SaleState(6_13))
    assert applied is not None
    remaining_minor = applied.record.remaining_minor or 0
    stated = merchant_share_minor(remaining_minor, yen, 6_13)
    assert billing_share_minor(stated, merchant, 6_13) == remaining_minor == applied.sale.open_minor
    assert applied.record.amount_minor == 6_13 - remaining_minor >= lowered_minor


def test_force_post_is_the_only_presentment_of_its_arn() -> None:
    record = force_post_record(FORCED)
    assert (record.operation, record.sequence, record.final, record.amount_minor) == ("clearing", 1, True, 5)
    assert unsent_record(FORCED) == record


FORCED = ForcePostRequest(
    simulation_id="child", accepted_ms=2, tenant_id="t", card_id="c", amount_minor=5, currency="EUR",
    mcc="5411", merchant_name="Corner shop", merchant_country="IE",
)  # fmt: skip


def test_requests_survive_a_round_trip() -> None:
    requests: list[SimulationRequest] = [sale().request, INCREMENT, reversal(1), clearing(), FORCED]
    decoded = msgspec.msgpack.decode(msgspec.msgpack.encode(requests), type=list[SimulationRequest])
    assert decoded == requests


@given(
    st.integers(1, 1000),
    st.lists(st.tuples(st.sampled_from("rc"), st.none() | st.integers(1, 400), st.booleans())),
)
def test_reversed_presented_and_open_amounts_add_up(
    open_minor: int, steps: list[tuple[str, int | None, bool]]
) -> None:
    """Without over-captures, reversed, presented and open amounts add up to the approved amount."""
    state, closed_minor, sequences = SaleState(open_minor), 0, []
    for kind, amount_minor, final in steps:
        wanted = None if amount_minor is None else min(amount_minor, state.open_minor)
        request_ = reversal(wanted) if kind == "r" else clearing(wanted, final)
        applied = apply_follow_up(request_, state)
        if applied is None or wanted == 0:
            continue
        closed_minor += applied.record.amount_minor
        if kind == "c":
            sequences.append(applied.record.sequence)
            closed_minor += (state.open_minor - applied.record.amount_minor) if final else 0
        state = applied.sale
        assert closed_minor + state.open_minor == open_minor
    assert sequences == list(range(1, len(sequences) + 1))
