"""Loads, transfers between an account and its programme's funding source, and their reversals."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from engine.authorization.effects import HoldLapsed, Transferred
from engine.ids import Derived, derive
from engine.instant import DAY_MS, to_text
from engine.limits import AMOUNT_MINOR_MAX
from engine.replies import Done, Problem
from tests.support.engine.build import (
    ACCOUNT,
    NOW_MS,
    PROGRAMME,
    account,
    an_id,
    authorize,
    card,
    load,
    posted_transfer,
    reverse_transfer,
    transfer,
)
from tests.support.engine.life import Life

SOURCE = derive(PROGRAMME, Derived.FUNDING_SOURCE)


@pytest.fixture
def life() -> Life:
    """A card with 100.00."""
    return Life(card(), account())


def refused(life: Life, command: Any, now_ms: int = NOW_MS) -> str:
    """The slug of the refusal of ``command``, which must change nothing."""
    before = copy.deepcopy((life.card, life.account))
    executed = life.do(command, now_ms)
    assert isinstance(executed.reply, Problem)
    assert (executed.journaled, executed.effects, executed.events) == (False, (), ())
    assert (life.card, life.account) == before
    return executed.reply.slug


def body(life: Life, command: Any, now_ms: int = NOW_MS) -> dict[str, Any]:
    reply = life.do(command, now_ms).reply
    assert isinstance(reply, Done)
    return reply.body


def test_debit_lowers_the_balance_and_shows_the_transfer(life: Life) -> None:
    command = transfer(external_ref="PAY-1", description="Rent", metadata={"invoice": "7"})
    executed = life.do(command)
    assert (life.account.posted_minor, life.account.version) == (7_000, 2)
    assert executed.effects == (
        Transferred(
            transfer_id=derive(command.id, Derived.TRANSFER),
            debit_entry_id=derive(command.id, Derived.ENTRY_DEBIT),
            credit_entry_id=derive(command.id, Derived.ENTRY_CREDIT),
            other_account_id=SOURCE,
            direction="debit",
            amount_minor=3_000,
            authorization_id=None,
        ),
    )
    assert executed.reply == Done(
        201,
        {
            "id": derive(command.id, Derived.TRANSFER),
            "account_id": ACCOUNT,
            "programme_id": PROGRAMME,
            "direction": "debit",
            "kind": "unload",
            "amount": {"amount": "30.00", "currency": "EUR"},
            "status": "posted",
            "external_ref": "PAY-1",
            "description": "Rent",
            "metadata": {"invoice": "7"},
            "created_at": to_text(NOW_MS),
            "reversal_id": None,
            "reversed_at": None,
        },
    )


def test_transfer_publishes_its_entry(life: Life) -> None:
    command = transfer(direction="credit", kind="load")
    (event,) = life.do(command).events
    assert event.type == "ledger.entry.posted"
    assert msgspec.json.decode(event.data) == {
        "entry_id": derive(command.id, Derived.ENTRY_CREDIT),
        "account_id": ACCOUNT,
        "authorization_id": None,
        "transfer_id": derive(command.id, Derived.TRANSFER),
        "direction": "credit",
        "amount": "30.00",
        "asset": "EUR",
        "available": "130.00",
        "occurred_at": to_text(NOW_MS),
    }


@pytest.mark.parametrize(
    ("parts", "slug"),
    [
        ({"account_id": an_id(9), "currency": "USD"}, "not-found"),
        ({"currency": "USD", "amount_minor": AMOUNT_MINOR_MAX}, "currency-mismatch"),
        ({"amount_minor": 10_001}, "insufficient-funds"),
        ({"direction": "credit", "kind": "load", "amount_minor": AMOUNT_MINOR_MAX}, "balance-limit-exceeded"),
        (
            {"allow_negative": True, "amount_minor": AMOUNT_MINOR_MAX + 10_001},
            "balance-limit-exceeded",
        ),
        ({"tenant_id": an_id(9)}, "not-found"),
        ({"live": True}, "not-found"),
    ],
)
def test_refused_transfer_changes_nothing(life: Life, parts: dict[str, Any], slug: str) -> None:
    assert refused(life, transfer(**parts)) == slug


def test_card_without_account_has_no_transfers() -> None:
    executed = Life(card(account_id=None), None).do(transfer())
    assert isinstance(executed.reply, Problem)
    assert executed.reply.slug == "not-found"


def test_open_holds_are_not_available_for_debits_and_expired_ones_are(life: Life) -> None:
    life.do(authorize(1, amount_minor=8_000))
    assert refused(life, transfer()) == "insufficient-funds"
    executed = life.do(transfer(2), NOW_MS + 7 * DAY_MS)
    assert [type(effect) for effect in executed.effects] == [HoldLapsed, Transferred]
    assert (life.account.posted_minor, life.account.held_minor, life.account.version) == (7_000, 0, 3)


def test_refused_debit_leaves_expired_holds_open(life: Life) -> None:
    life.do(authorize(1, amount_minor=8_000))
    assert refused(life, transfer(amount_minor=10_001), NOW_MS + 7 * DAY_MS) == "insufficient-funds"


def test_allowed_debit_makes_the_balance_negative(life: Life) -> None:
    life.do(transfer(amount_minor=25_000, kind="fee", allow_negative=True))
    assert life.account.posted_minor == -15_000


@pytest.mark.parametrize(("direction", "after_minor"), [("debit", 13_000), ("credit", 7_000)])
def test_reversal_posts_the_opposite_and_shows_the_transfer(
    life: Life, direction: Any, after_minor: int
) -> None:
    command = reverse_transfer(posted=posted_transfer(direction=direction, kind="adjustment"))
    shown = body(life, command, NOW_MS + 5)
    assert life.account.posted_minor == after_minor
    assert (shown["id"], shown["direction"], shown["status"]) == (
        command.transfer.id,
        direction,
        "reversed",
    )
    assert (shown["reversal_id"], shown["reversed_at"], shown["created_at"]) == (
        derive(command.id, Derived.TRANSFER),
        to_text(NOW_MS + 5),
        to_text(NOW_MS),
    )


def test_reversal_of_a_spent_credit_needs_allow_negative(life: Life) -> None:
    posted = posted_transfer(direction="credit", kind="load", amount_minor=10_000)
    life.do(authorize(1))
    assert refused(life, reverse_transfer(posted=posted)) == "insufficient-funds"
    life.do(reverse_transfer(posted=posted, allow_negative=True))
    assert (life.account.posted_minor, life.account.held_minor) == (0, 1_000)


# --- loads ---


def test_load_credits_the_account(life: Life) -> None:
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


def test_load_closes_expired_holds_too(life: Life) -> None:
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
def test_refused_load_changes_no_state(life: Life, parts: dict[str, Any], status: int, slug: str) -> None:
    life.do(authorize(1))
    before = copy.deepcopy((life.card, life.account))
    executed = life.do(load(1, **parts), NOW_MS + 8 * DAY_MS)
    assert isinstance(executed.reply, Problem)
    assert (executed.reply.status, executed.reply.slug) == (status, slug)
    assert not executed.journaled
    assert (executed.effects, executed.events) == ((), ())
    assert (life.card, life.account) == before


def test_load_up_to_the_largest_balance(life: Life) -> None:
    assert life.do(load(1, amount_minor=AMOUNT_MINOR_MAX - 10_000)).journaled
    assert life.account.posted_minor == AMOUNT_MINOR_MAX


def test_load_of_an_unfunded_card_is_refused() -> None:
    reply = Life(card(account_id=None), None).do(load()).reply
    assert isinstance(reply, Problem)
    assert (reply.status, reply.slug) == (409, "card-not-funded")
