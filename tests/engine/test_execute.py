"""Commands on a card: what they answer, what they change, and what a refusal leaves alone."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

import msgspec
import pytest

from engine.account import Account, balance_view
from engine.card import Card, card_view
from engine.commands import CardCommand
from engine.controls import MccAllow, PerDayAmountCap, PerDayCap, PerTxnCap
from engine.effects import CardIssued, Cvv2Failed
from engine.execute import execute
from engine.executed import Executed, Surroundings
from engine.hold import Hold
from engine.ids import Derived, derive
from engine.instant import DAY_MS, to_ms, to_text
from engine.issuing import card_of, issue
from engine.limits import AMOUNT_MINOR_MAX, CVV2_FAILURES_PER_DAY
from engine.replies import Answer, Done, Problem
from tests.engine.build import (
    ACCOUNT,
    CARD,
    NOW_MS,
    PROGRAMME,
    TENANT,
    account,
    an_id,
    authorize,
    card,
    change_card,
    create_card,
    load,
    programme,
    read_balance,
)

TODAY = "2026-11-21"


class Life:
    """A card, its account and its programme, from one command to the next."""

    def __init__(self, card: Card, account: Account | None, **config: Any) -> None:
        self.met = Surroundings(card, account, programme(**config))

    def do(self, command: CardCommand, now_ms: int = NOW_MS) -> Executed:
        return execute(command, self.met, now_ms)

    @property
    def card(self) -> Card:
        return self.met.card

    @property
    def account(self) -> Account:
        assert self.met.account is not None
        return self.met.account


@pytest.fixture
def life() -> Life:
    return Life(card(), account())


# --- authorizations ---


def test_an_approval_reserves_and_counts(life: Life) -> None:
    executed = life.do(authorize())
    assert executed.reply == Answer("00", authorize().id, "000000", 1_000)
    hold_id = derive(authorize().id, Derived.HOLD)
    expected = Hold(hold_id, CARD, authorize().id, 1_000, NOW_MS + 7 * DAY_MS)
    assert life.account == account(
        held_minor=1_000, version=2, holds={hold_id: expected}, next_expiry_ms=expected.expires_ms
    )
    assert life.card == card(day=TODAY, day_count=1, day_amount_minor=1_000)
    assert executed.journaled


def test_a_decline_changes_nothing_but_is_journaled(life: Life) -> None:
    executed = life.do(authorize(amount_minor=10_001))
    assert executed.reply == Answer("51", authorize().id)
    assert executed.journaled
    assert (life.card, life.account) == (card(), account())


def test_a_verification_changes_nothing(life: Life) -> None:
    assert life.do(authorize(amount_minor=0)).reply == Answer("85", authorize().id, "000000")
    assert (life.card, life.account) == (card(), account())


def test_a_refund_is_posted_at_once_and_counts_nothing(life: Life) -> None:
    life.card.state = "stolen"
    executed = life.do(authorize(kind="refund"))
    assert executed.reply == Answer("00", authorize().id, "000000", 1_000)
    assert life.account == account(posted_minor=11_000, version=2)
    assert life.card == card(state="stolen")


def test_a_partial_approval_counts_what_was_approved() -> None:
    life = Life(card(controls=(PerDayAmountCap(9_000),)), account(posted_minor=700))
    assert life.do(authorize(partial_allowed=True)).reply == Answer("10", authorize().id, "000000", 700)
    assert (life.card.day_amount_minor, life.account.held_minor) == (700, 700)


def test_gateway_mode_holds_nothing_here() -> None:
    life = Life(card(account_id=None), None, mode="gateway")
    assert life.do(authorize()).reply == Answer("00", authorize().id, "000000", 1_000)
    assert life.card.day_amount_minor == 1_000


def test_wrong_cvv2_values_are_counted_until_nobody_looks(life: Life) -> None:
    for number in range(1, 10):
        executed = life.do(authorize(number, cvv2="mismatch"))
        assert isinstance(executed.reply, Answer)
        assert executed.reply.response_code == "N7"
        looked = number <= CVV2_FAILURES_PER_DAY
        assert any(isinstance(effect, Cvv2Failed) for effect in executed.effects) == looked
    assert life.card.cvv2_failures == CVV2_FAILURES_PER_DAY
    right = life.do(authorize(20, cvv2="match"))
    assert isinstance(right.reply, Answer)
    assert right.reply.response_code == "N7"
    assert life.card.cvv2_failures == CVV2_FAILURES_PER_DAY
    tomorrow = life.do(authorize(21, cvv2="match"), NOW_MS + DAY_MS)
    assert isinstance(tomorrow.reply, Answer)
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
def test_caps_of_a_day_last_as_long_as_the_day(zone: str, first: str, last: str, next_day: str) -> None:
    life = Life(card(controls=(PerDayCap(1),)), account(), timezone=zone)
    before = to_ms(datetime.fromisoformat(first)) - 1
    assert approved(life.do(authorize(1), before))
    for number, at in enumerate((first, last, next_day), 2):
        declined = at == last
        assert approved(life.do(authorize(number), to_ms(datetime.fromisoformat(at)))) != declined
    assert life.card.day_count == 1


def test_a_closed_day_is_never_reopened() -> None:
    """Neither by a clock that jumps back nor by a programme that moves west."""
    life = Life(card(controls=(PerDayCap(2),)), account())
    assert approved(life.do(authorize(1), NOW_MS + DAY_MS))
    assert approved(life.do(authorize(2), NOW_MS))
    assert not approved(life.do(authorize(3), NOW_MS - 3 * DAY_MS))
    assert (life.card.day, life.card.day_count) == ("2026-11-22", 2)
    west = Life(life.card, life.account, timezone="Pacific/Pago_Pago")
    assert not approved(west.do(authorize(4), NOW_MS + DAY_MS))


def approved(executed: Executed) -> bool:
    return isinstance(executed.reply, Answer) and executed.reply.response_code == "00"


# --- holds that have expired ---


def test_an_expired_hold_stops_counting_before_the_decision(life: Life) -> None:
    life.do(authorize(1, amount_minor=9_000))
    later = NOW_MS + 7 * DAY_MS
    assert not approved(life.do(authorize(2, amount_minor=5_000), later - 1))
    executed = life.do(authorize(3, amount_minor=10_000), later)
    assert approved(executed)
    assert executed.inputs is not None
    assert executed.inputs.lapsed_holds == (derive(authorize(1).id, Derived.HOLD),)
    assert (executed.inputs.held_minor, executed.inputs.posted_minor) == (0, 10_000)
    assert set(life.account.holds) == {derive(authorize(3).id, Derived.HOLD)}
    assert (life.account.held_minor, life.account.version) == (10_000, 3)


def test_a_decline_lapses_them_too(life: Life) -> None:
    life.do(authorize(1))
    assert not approved(life.do(authorize(2, currency="USD"), NOW_MS + 8 * DAY_MS))
    assert life.account == account(version=3)


def test_travel_holds_outlive_others(life: Life) -> None:
    life.do(authorize(1, mcc="7011"))
    life.do(authorize(2))
    life.do(authorize(3, amount_minor=0), NOW_MS + 8 * DAY_MS)
    assert set(life.account.holds) == {derive(authorize(1).id, Derived.HOLD)}
    assert life.account.next_expiry_ms == NOW_MS + 30 * DAY_MS


# --- balances ---


@pytest.mark.parametrize(
    ("now_ms", "held", "available"),
    [
        (NOW_MS, "15.00", "85.00"),
        (NOW_MS + 7 * DAY_MS - 1, "15.00", "85.00"),
        (NOW_MS + 7 * DAY_MS, "5.00", "95.00"),
        (NOW_MS + 30 * DAY_MS, "0.00", "100.00"),
    ],
)
def test_a_balance_counts_no_expired_hold(life: Life, now_ms: int, held: str, available: str) -> None:
    life.do(authorize(1))
    life.do(authorize(2, mcc="7011", amount_minor=500))
    before = copy.deepcopy(life.account)
    executed = life.do(read_balance(), now_ms)
    assert isinstance(executed.reply, Done)
    assert executed.reply.body == {
        "card_id": CARD,
        "account_id": ACCOUNT,
        "currency": "EUR",
        "posted": "100.00",
        "held": held,
        "available": available,
        "as_of": to_text(now_ms),
        "version": 3,
    }
    assert not executed.journaled
    assert life.account == before


def test_the_balance_of_an_unfunded_card() -> None:
    life = Life(card(account_id=None), None)
    executed = life.do(read_balance())
    assert isinstance(executed.reply, Done)
    assert executed.reply.body | {"as_of": ""} == {
        "card_id": CARD,
        "account_id": None,
        "currency": "EUR",
        "posted": "0.00",
        "held": "0.00",
        "available": "0.00",
        "as_of": "",
        "version": 0,
    }


def test_balances_can_be_negative() -> None:
    view = balance_view(account(posted_minor=-5, held_minor=10), CARD, "EUR", NOW_MS)
    assert (view["posted"], view["held"], view["available"]) == ("-0.05", "0.10", "-0.15")


# --- loads ---


def test_a_load_credits_the_account(life: Life) -> None:
    executed = life.do(load())
    assert executed.reply == Done(
        201,
        {
            "entry_id": derive(load().id, Derived.ENTRY_CREDIT),
            "account_id": ACCOUNT,
            "amount": {"amount": "50.00", "currency": "EUR"},
            "available": "150.00",
        },
    )
    assert life.account == account(posted_minor=15_000, version=2)


def test_a_load_finds_expired_holds_too(life: Life) -> None:
    life.do(authorize(1))
    executed = life.do(load(), NOW_MS + 8 * DAY_MS)
    assert isinstance(executed.reply, Done)
    assert executed.reply.body["available"] == "150.00"
    assert life.account == account(posted_minor=15_000, version=3)


@pytest.mark.parametrize(
    ("parts", "status", "slug"),
    [
        ({"tenant_id": an_id(9)}, 404, "not-found"),
        ({"live": True}, 404, "not-found"),
        ({"currency": "USD"}, 400, "currency-mismatch"),
        ({"amount_minor": AMOUNT_MINOR_MAX - 9_999}, 409, "balance-limit-exceeded"),
    ],
)
def test_loads_that_are_refused(life: Life, parts: dict[str, Any], status: int, slug: str) -> None:
    life.do(authorize(1))
    before = copy.deepcopy((life.card, life.account))
    executed = life.do(load(1, **parts), NOW_MS + 8 * DAY_MS)
    assert isinstance(executed.reply, Problem)
    assert (executed.reply.status, executed.reply.slug) == (status, slug)
    assert not executed.journaled
    assert (executed.effects, executed.events) == ((), ())
    assert (life.card, life.account) == before


def test_the_largest_balance(life: Life) -> None:
    assert life.do(load(1, amount_minor=AMOUNT_MINOR_MAX - 10_000)).journaled
    assert life.account.posted_minor == AMOUNT_MINOR_MAX


def test_an_unfunded_card_cannot_be_loaded() -> None:
    reply = Life(card(account_id=None), None).do(load()).reply
    assert isinstance(reply, Problem)
    assert (reply.status, reply.slug) == (409, "card-not-funded")


# --- changes ---


@pytest.mark.parametrize(
    ("met", "asked", "after"),
    [
        ({}, {"state": "suspended"}, {"state": "suspended"}),
        ({}, {"state": "lost", "state_reason": "in a taxi"}, {"state": "lost", "state_reason": "in a taxi"}),
        (
            {"state": "suspended", "state_reason": "holiday"},
            {"state": "active"},
            {"state": "active", "state_reason": None},
        ),
        (
            {"state": "suspended", "state_reason": "holiday"},
            {"controls": (PerDayCap(1),)},
            {"state": "suspended", "state_reason": "holiday", "controls": (PerDayCap(1),)},
        ),
        ({"controls": (PerDayCap(1),)}, {"controls": ()}, {"controls": ()}),
        (
            {},
            {"state": "suspended", "controls": (PerDayCap(1), PerTxnCap(5), MccAllow(("1",)))},
            {"state": "suspended", "controls": (MccAllow(("1",)), PerTxnCap(5), PerDayCap(1))},
        ),
        ({"state": "lost"}, {"controls": (PerDayCap(1),)}, {"state": "lost", "controls": (PerDayCap(1),)}),
    ],
)
def test_changes(met: dict[str, Any], asked: dict[str, Any], after: dict[str, Any]) -> None:
    life = Life(card(**met), account())
    executed = life.do(change_card(1, **asked))
    assert executed.reply == Done(200, card_view(card(**after)))
    assert life.card == card(**after)
    assert executed.journaled
    assert [event.type for event in executed.events] == ["card.updated"]
    assert life.account == account()


@pytest.mark.parametrize(
    ("met", "asked"),
    [
        ({}, {}),
        ({}, {"state": "active"}),
        ({"state": "stolen"}, {"state": "stolen"}),
        ({"controls": (PerTxnCap(5), PerDayCap(1))}, {"controls": (PerDayCap(1), PerTxnCap(5))}),
    ],
)
def test_no_change_is_success_without_a_trace(met: dict[str, Any], asked: dict[str, Any]) -> None:
    life = Life(card(**met), account())
    executed = life.do(change_card(1, **asked))
    assert executed == Executed(Done(200, card_view(card(**met))))
    assert life.card == card(**met)


@pytest.mark.parametrize(
    ("asked", "status", "slug"),
    [
        ({"state": "unactivated"}, 409, "invalid-state-transition"),
        ({"state": "unactivated", "controls": (PerDayCap(1),)}, 409, "invalid-state-transition"),
        ({"state": "suspended", "tenant_id": an_id(9)}, 404, "not-found"),
        ({"state": "suspended", "live": True}, 404, "not-found"),
    ],
)
def test_changes_that_are_refused(life: Life, asked: dict[str, Any], status: int, slug: str) -> None:
    executed = life.do(change_card(1, **asked))
    assert isinstance(executed.reply, Problem)
    assert (executed.reply.status, executed.reply.slug) == (status, slug)
    assert not executed.journaled
    assert life.card == card()


# --- issue ---


def test_a_card_is_issued_with_an_account() -> None:
    command = create_card(controls=(PerDayCap(1), PerTxnCap(5)), state="unactivated")
    made = card_of(command, NOW_MS)
    opened = account(id=command.account_id, posted_minor=0, version=0)
    executed = issue(command, made, opened)
    assert executed.reply == Done(201, card_view(made))
    assert executed.effects == (CardIssued(made, command.account_id),)
    assert (made.controls, made.state, made.seq) == ((PerTxnCap(5), PerDayCap(1)), "unactivated", 0)
    assert (opened.version, opened.posted_minor) == (1, 0)


def test_a_card_joins_an_account_without_changing_it() -> None:
    command = create_card(account_id=ACCOUNT, opens_account=False)
    shared = account()
    executed = issue(command, card_of(command, NOW_MS), shared)
    assert isinstance(executed.effects[0], CardIssued)
    assert executed.effects[0].opened_account_id is None
    assert shared == account()


@pytest.mark.parametrize(
    "parts", [{"tenant_id": an_id(9)}, {"live": True}, {"currency": "USD"}, {"programme_id": an_id(8)}]
)
def test_a_card_joins_no_strangers_account(parts: dict[str, Any]) -> None:
    command = create_card(account_id=ACCOUNT, opens_account=False, **parts)
    executed = issue(command, card_of(command, NOW_MS), account())
    assert isinstance(executed.reply, Problem)
    assert (executed.reply.status, executed.journaled) == (404, False)


def test_a_card_is_issued_once(life: Life) -> None:
    reply = life.do(create_card(id=CARD)).reply
    assert isinstance(reply, Problem)
    assert reply.status == 409


def test_the_public_card_has_the_specifications_fields_and_no_name() -> None:
    view = card_view(card(controls=(PerTxnCap(5),), state_reason="why"))
    specified = {"id", "programme_id", "card_product_id", "cardholder_id", "pan_ref", "last4", "iin"}
    specified |= {"exp_month", "exp_year", "state", "controls", "funding_account_id", "cvk_generation"}
    specified |= {"created_at", "currency"}
    assert set(view) == specified | {"network", "state_reason"}
    assert view["created_at"] == "2026-11-21T10:00:00.000Z"
    assert view["controls"] == [{"kind": "per_txn_cap", "amount": "0.05"}]
    assert (view["exp_month"], view["exp_year"], view["funding_account_id"]) == (11, 2029, ACCOUNT)
    assert msgspec.json.encode(view)
    assert {PROGRAMME, TENANT} & set(map(str, view.values())) == {PROGRAMME}
