"""Authorizations on a card: holds, counters, and declines that change no state."""

from __future__ import annotations

from datetime import datetime

import pytest

from engine.authorization.authorizing import decision_inputs
from engine.authorization.effects import Cvv2Failed, HoldLapsed
from engine.authorization.executed import CommandContext
from engine.cards.card import DeclaredBalance
from engine.cards.hold import Hold
from engine.controls import PerDayAmountCap, PerDayCap
from engine.decision.delegation import EndpointResult
from engine.decision.inputs import RULES, Inputs
from engine.ids import Derived, derive
from engine.instant import DAY_MS, to_ms
from engine.limits import CVV2_FAILURES_PER_DAY
from engine.replies import WireAnswer
from tests.support.engine.build import (
    CARD,
    NOW_MS,
    account,
    authorize,
    card,
    programme,
)
from tests.support.engine.life import Life, approved

TODAY = "2026-11-21"


@pytest.fixture
def life() -> Life:
    return Life(card(), account())


def test_a_decision_sees_each_thing_under_its_name() -> None:
    context = CommandContext(
        card(
            seq=2,
            state="suspended",
            cardholder_active=False,
            network="mastercard",
            currency="GBP",
            exp_year=2031,
            exp_month=4,
            controls=(PerDayCap(5),),
            day=TODAY,
            day_count=6,
            day_amount_minor=7,
            cvv2_failures=8,
            declared=DeclaredBalance(100, 91, NOW_MS),
        ),
        account(version=10, posted_minor=11, held_minor=12),
        programme(
            version=13,
            status="closed",
            mode="gateway",
            timezone="Europe/Dublin",
            hold_expiry_days=14,
            decisioning="delegated",
        ),
        endpoint_result=EndpointResult(trigger="timeout"),
    )
    assert decision_inputs(context, NOW_MS, (HoldLapsed("hold", "authorization"),)) == Inputs(
        now_ms=NOW_MS,
        card_seq=2,
        card_state="suspended",
        cardholder_active=False,
        network="mastercard",
        card_currency="GBP",
        exp_year=2031,
        exp_month=4,
        controls=(PerDayCap(5),),
        day=TODAY,
        day_count=6,
        day_amount_minor=7,
        cvv2_failures=8,
        programme_version=13,
        programme_status="closed",
        programme_mode="gateway",
        timezone="Europe/Dublin",
        hold_expiry_days=14,
        account_version=10,
        posted_minor=11,
        held_minor=12,
        lapsed_holds=("hold",),
        original=None,
        decisioning="delegated",
        endpoint_result=EndpointResult(trigger="timeout"),
        declared_remaining_minor=9,
        rules=RULES,
    )


def test_approval_places_a_hold_and_counts(life: Life) -> None:
    executed = life.do(authorize())
    assert executed.reply == WireAnswer("00", authorize().id, "000000", 1_000)
    hold_id = derive(authorize().id, Derived.HOLD)
    expected = Hold(hold_id, CARD, authorize().id, 1_000, NOW_MS + 7 * DAY_MS)
    assert life.account == account(held_minor=1_000, version=2, holds={hold_id: expected})
    assert life.card == card(day=TODAY, day_count=1, day_amount_minor=1_000)
    assert executed.journaled


def test_decline_is_journaled_and_changes_no_state(life: Life) -> None:
    executed = life.do(authorize(amount_minor=10_001))
    assert executed.reply == WireAnswer("51", authorize().id, reason="insufficient_funds")
    assert executed.journaled
    assert (life.card, life.account) == (card(), account())


def test_verification_changes_no_state(life: Life) -> None:
    assert life.do(authorize(amount_minor=0)).reply == WireAnswer("85", authorize().id, "000000")
    assert (life.card, life.account) == (card(), account())


def test_refund_is_posted_at_once_and_not_counted(life: Life) -> None:
    life.card.state = "stolen"
    executed = life.do(authorize(kind="refund"))
    assert executed.reply == WireAnswer("00", authorize().id, "000000", 1_000)
    assert life.account == account(posted_minor=11_000, version=2)
    assert life.card == card(state="stolen")


def test_partial_approval_counts_the_approved_amount() -> None:
    life = Life(card(controls=(PerDayAmountCap(9_000),)), account(posted_minor=700))
    assert life.do(authorize(partial_allowed=True)).reply == WireAnswer("10", authorize().id, "000000", 700)
    assert (life.card.day_amount_minor, life.account.held_minor) == (700, 700)


def test_gateway_mode_places_no_hold() -> None:
    life = Life(card(account_id=None), None, mode="gateway")
    assert life.do(authorize()).reply == WireAnswer("00", authorize().id, "000000", 1_000)
    assert life.card.day_amount_minor == 1_000


def test_wrong_cvv2_values_are_counted_until_the_limit(life: Life) -> None:
    for number in range(1, 10):
        executed = life.do(authorize(number, cvv2="mismatch"))
        assert isinstance(executed.reply, WireAnswer)
        assert executed.reply.response_code == "N7"
        looked = number <= CVV2_FAILURES_PER_DAY
        assert any(isinstance(effect, Cvv2Failed) for effect in executed.effects) == looked
    assert life.card.cvv2_failures == CVV2_FAILURES_PER_DAY
    right = life.do(authorize(20, cvv2="match"))
    assert isinstance(right.reply, WireAnswer)
    assert right.reply.response_code == "N7"
    assert life.card.cvv2_failures == CVV2_FAILURES_PER_DAY
    tomorrow = life.do(authorize(21, cvv2="match"), NOW_MS + DAY_MS)
    assert isinstance(tomorrow.reply, WireAnswer)
    assert tomorrow.reply.response_code == "00"
    assert life.card.cvv2_failures == 0


# --- days ---

DUBLIN = "Europe/Dublin"


@pytest.mark.parametrize(
    ("zone", "first", "last", "next_day"),
    [
        ("UTC", "2026-11-21T00:00:00+00:00", "2026-11-21T23:59:59.999+00:00", "2026-11-22T00:00:00+00:00"),
        (DUBLIN, "2026-10-25T00:00:00+01:00", "2026-10-25T23:59:59.999+00:00", "2026-10-26T00:00:00+00:00"),
        (DUBLIN, "2026-03-29T00:00:00+00:00", "2026-03-29T23:59:59.999+01:00", "2026-03-30T00:00:00+01:00"),
        (
            "Asia/Beirut",
            "2026-03-29T01:00:00+03:00",
            "2026-03-29T23:59:59+03:00",
            "2026-03-30T00:00:00+03:00",
        ),
        (
            "America/New_York",
            "2026-11-01T00:00:00-04:00",
            "2026-11-01T23:59:59-05:00",
            "2026-11-02T00:00:00-05:00",
        ),
        (
            "Asia/Kathmandu",
            "2026-11-21T00:00:00+05:45",
            "2026-11-21T23:59:59+05:45",
            "2026-11-22T00:00:00+05:45",
        ),
    ],
)
def test_daily_cap_resets_at_programme_midnight(zone: str, first: str, last: str, next_day: str) -> None:
    life = Life(card(controls=(PerDayCap(1),)), account(), timezone=zone)
    before = to_ms(datetime.fromisoformat(first)) - 1
    assert approved(life.do(authorize(1), before))
    for number, at in enumerate((first, last, next_day), 2):
        declined = at == last
        assert approved(life.do(authorize(number), to_ms(datetime.fromisoformat(at)))) != declined
    assert life.card.day_count == 1


def test_past_day_is_not_reopened() -> None:
    """Neither a clock that goes back nor a programme that changes its time zone reopens it."""
    life = Life(card(controls=(PerDayCap(2),)), account())
    assert approved(life.do(authorize(1), NOW_MS + DAY_MS))
    assert approved(life.do(authorize(2), NOW_MS))
    assert not approved(life.do(authorize(3), NOW_MS - 3 * DAY_MS))
    assert (life.card.day, life.card.day_count) == ("2026-11-22", 2)
    west = Life(life.card, life.account, timezone="Pacific/Pago_Pago")
    assert not approved(west.do(authorize(4), NOW_MS + DAY_MS))
