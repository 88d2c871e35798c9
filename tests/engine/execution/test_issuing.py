"""Commands that issue and change a card."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.authorization.effects import CardIssued
from engine.authorization.executed import Executed
from engine.cards.card import card_view
from engine.controls import MccAllow, PerDayCap, PerTxnCap
from engine.execution.issuing import card_of, issue
from engine.replies import Done, Problem
from tests.support.engine.build import (
    ACCOUNT,
    CARD,
    NOW_MS,
    PROGRAMME,
    TENANT,
    account,
    an_id,
    card,
    change_card,
    create_card,
)
from tests.support.engine.life import Life


@pytest.fixture
def life() -> Life:
    return Life(card(), account())


# --- changes ---


@pytest.mark.parametrize(
    ("before", "asked", "after"),
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
def test_change_is_journaled(before: dict[str, Any], asked: dict[str, Any], after: dict[str, Any]) -> None:
    life = Life(card(**before), account())
    executed = life.do(change_card(1, **asked))
    assert executed.reply == Done(200, card_view(card(**after)))
    assert life.card == card(**after)
    assert executed.journaled
    assert [event.type for event in executed.events] == ["card.updated"]
    assert life.account == account()


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        ({}, {}),
        ({}, {"state": "active"}),
        ({"state": "stolen"}, {"state": "stolen"}),
        ({"controls": (PerTxnCap(5), PerDayCap(1))}, {"controls": (PerDayCap(1), PerTxnCap(5))}),
    ],
)
def test_unchanged_card_is_not_journaled(before: dict[str, Any], asked: dict[str, Any]) -> None:
    life = Life(card(**before), account())
    executed = life.do(change_card(1, **asked))
    assert executed == Executed(Done(200, card_view(card(**before))))
    assert life.card == card(**before)


@pytest.mark.parametrize(
    ("asked", "status", "slug"),
    [
        ({"state": "unactivated"}, 409, "invalid-state-transition"),
        ({"state": "unactivated", "controls": (PerDayCap(1),)}, 409, "invalid-state-transition"),
        ({"state": "suspended", "tenant_id": an_id(9)}, 404, "not-found"),
        ({"state": "suspended", "live": True}, 404, "not-found"),
    ],
)
def test_refused_change_leaves_the_state(life: Life, asked: dict[str, Any], status: int, slug: str) -> None:
    executed = life.do(change_card(1, **asked))
    assert isinstance(executed.reply, Problem)
    assert (executed.reply.status, executed.reply.slug) == (status, slug)
    assert not executed.journaled
    assert life.card == card()


# --- issue ---


def test_card_is_issued_with_an_account() -> None:
    command = create_card(controls=(PerDayCap(1), PerTxnCap(5)), state="unactivated")
    made = card_of(command, NOW_MS)
    opened = account(id=command.account_id, posted_minor=0, version=0)
    executed = issue(command, made, opened)
    assert executed.reply == Done(201, card_view(made))
    assert executed.effects == (CardIssued(made, command.account_id),)
    assert (made.controls, made.state, made.seq) == ((PerTxnCap(5), PerDayCap(1)), "unactivated", 0)
    assert (opened.version, opened.posted_minor) == (1, 0)


def test_card_joins_an_account_without_changing_it() -> None:
    command = create_card(account_id=ACCOUNT, opens_account=False)
    shared = account()
    executed = issue(command, card_of(command, NOW_MS), shared)
    assert isinstance(executed.effects[0], CardIssued)
    assert executed.effects[0].opened_account_id is None
    assert shared == account()


@pytest.mark.parametrize(
    "parts", [{"tenant_id": an_id(9)}, {"live": True}, {"currency": "USD"}, {"programme_id": an_id(8)}]
)
def test_card_joins_no_account_of_another_owner(parts: dict[str, Any]) -> None:
    command = create_card(account_id=ACCOUNT, opens_account=False, **parts)
    executed = issue(command, card_of(command, NOW_MS), account())
    assert isinstance(executed.reply, Problem)
    assert (executed.reply.status, executed.journaled) == (404, False)


def test_card_id_is_issued_once(life: Life) -> None:
    reply = life.do(create_card(id=CARD)).reply
    assert isinstance(reply, Problem)
    assert reply.status == 409


def test_card_view_has_the_public_members_and_no_name() -> None:
    view = card_view(card(controls=(PerTxnCap(5),), state_reason="why"))
    specified = {"id", "programme_id", "card_product_id", "cardholder_id", "pan_ref", "last4", "iin"}
    specified |= {"exp_month", "exp_year", "state", "controls", "funding_account_id", "cvk_generation"}
    specified |= {"created_at", "currency"}
    assert set(view) == specified | {"network", "state_reason", "replaces", "replaced_by"}
    assert view["created_at"] == "2026-11-21T10:00:00.000Z"
    assert view["controls"] == [{"kind": "per_txn_cap", "amount": "0.05"}]
    assert (view["exp_month"], view["exp_year"], view["funding_account_id"]) == (11, 2029, ACCOUNT)
    assert msgspec.json.encode(view)
    assert {PROGRAMME, TENANT} & set(map(str, view.values())) == {PROGRAMME}
