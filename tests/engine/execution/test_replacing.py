"""The replacement of a card: which cards can be replaced, and all that the new card continues."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.authorization.effects import BalanceDeclared
from engine.authorization.executed import Executed
from engine.cards.account import Account
from engine.cards.card import Card, DeclaredBalance, card_view
from engine.commands import Continuation
from engine.controls import PerDayAmountCap, PerDayCap
from engine.execution.issuing import card_of, issue
from engine.ids import Derived, derive, key_of, shard_of
from engine.replies import Done, Problem
from tests.support.engine.build import (
    ACCOUNT,
    CARD,
    NOW_MS,
    SHARD,
    account,
    an_id,
    authorize,
    card,
    declare_balance,
    replace_card,
)
from tests.support.engine.life import Life, approved

NEW = replace_card().id


def replaced(life: Life, **parts: Any) -> tuple[Executed, Card]:
    """The result of a replacement, and the new card."""
    executed = life.do(replace_card(**parts))
    assert executed.issues is not None
    return executed, card_of(executed.issues, NOW_MS)


@pytest.mark.parametrize(
    ("before", "reason", "state", "state_reason"),
    [
        ({}, "lost", "lost", "lost"),
        ({}, "stolen", "stolen", "stolen"),
        ({}, "damaged", "terminated", "damaged"),
        ({}, "expired", "terminated", "expired"),
        ({"state": "suspended", "state_reason": "holiday"}, "lost", "lost", "lost"),
        ({"state": "unactivated"}, "damaged", "terminated", "damaged"),
        ({"state": "lost", "state_reason": "in a taxi"}, "lost", "lost", "in a taxi"),
        ({"state": "terminated"}, "expired", "terminated", None),
    ],
)
def test_replaced_card_ends(
    before: dict[str, Any], reason: Any, state: str, state_reason: str | None
) -> None:
    life = Life(card(**before), account())
    executed, new = replaced(life, reason=reason)
    ended = before | {"state": state, "state_reason": state_reason, "replaced_by": NEW}
    assert life.card == card(**ended)
    assert executed.reply == Done(201, card_view(new))
    assert executed.journaled
    assert life.account == account()


@pytest.mark.parametrize(
    ("before", "asked", "status", "slug"),
    [
        ({"state": "lost"}, {"reason": "stolen"}, 409, "invalid-state-transition"),
        ({"state": "stolen"}, {"reason": "expired"}, 409, "invalid-state-transition"),
        ({"state": "terminated"}, {"reason": "lost"}, 409, "invalid-state-transition"),
        ({"state": "lost", "replaced_by": an_id(5)}, {"reason": "lost"}, 409, "card-already-replaced"),
        ({"state": "active", "replaced_by": an_id(5)}, {"reason": "lost"}, 409, "card-already-replaced"),
        ({}, {"tenant_id": an_id(9)}, 404, "not-found"),
        ({}, {"live": True}, 404, "not-found"),
    ],
)
def test_refused_replacement_changes_nothing(
    before: dict[str, Any], asked: dict[str, Any], status: int, slug: str
) -> None:
    life = Life(card(**before), account())
    executed = life.do(replace_card(**asked))
    assert isinstance(executed.reply, Problem)
    assert (executed.reply.status, executed.reply.slug) == (status, slug)
    assert (executed.journaled, executed.issues, executed.events) == (False, None, ())
    assert life.card == card(**before)


def test_replacement_continues_account_controls_counters_and_declared_balance() -> None:
    controls = (PerDayCap(3), PerDayAmountCap(5_000))
    life = Life(card(controls=controls, cvv2_failures=2), account())
    life.do(declare_balance(1))
    assert approved(life.do(authorize(1)))
    _, new = replaced(life, state="unactivated")
    old = life.card
    assert (new.id, new.replaces, shard_of(new.id)) == (NEW, CARD, SHARD)
    assert (new.account_id, new.controls, new.state) == (ACCOUNT, controls, "unactivated")
    assert (new.day, new.day_count, new.day_amount_minor) == (old.day, 1, 1_000)
    assert new.declared == old.declared == DeclaredBalance(2_500, 0, NOW_MS)
    assert (new.pan_ref, new.last4, new.exp_month, new.exp_year) == ("pan_new_1", "2222", 12, 2029)
    assert (new.cvk_generation, new.cvv2_failures, new.seq, new.cardholder_active) == ("2", 0, 0, False)
    kept = ("programme_id", "card_product_id", "cardholder_id", "network", "currency", "iin")
    assert [getattr(new, name) for name in kept] == [getattr(old, name) for name in kept]


def test_consumed_part_of_a_declared_balance_is_continued() -> None:
    life = Life(card(declared=DeclaredBalance(2_500, 900, NOW_MS)), account())
    executed, new = replaced(life)
    assert new.declared == DeclaredBalance(2_500, 900, NOW_MS)
    assert executed.issues is not None
    issued = issue(executed.issues, new, account())
    assert issued.effects[1:] == (BalanceDeclared(DeclaredBalance(2_500, 900, NOW_MS)),)


@pytest.mark.parametrize("funds", [account(), None])
def test_replacement_is_issued_on_the_same_account_without_changing_it(funds: Account | None) -> None:
    life = Life(card(account_id=funds and funds.id), funds)
    executed, new = replaced(life)
    assert executed.issues is not None
    assert executed.issues.command_key == key_of(derive(NEW, Derived.ISSUE))
    assert executed.issues.continues == Continuation(card_id=CARD)
    issued = issue(executed.issues, new, funds)
    assert (issued.journaled, issued.reply) == (True, executed.reply)
    assert funds is None or funds == account()


def test_replacement_publishes_three_events_under_different_ids() -> None:
    life = Life(card(), account())
    executed, new = replaced(life)
    assert executed.issues is not None
    events = (*issue(executed.issues, new, account()).events, *executed.events)
    assert [event.type for event in events] == ["card.created", "card.updated", "card.replaced"]
    assert len({event.id for event in events}) == 3
    created, updated, changed = (json.loads(event.data) for event in events)
    assert (created["id"], created["replaces"], created["replaced_by"]) == (NEW, CARD, None)
    assert (updated["id"], updated["state"], updated["replaced_by"]) == (CARD, "lost", NEW)
    assert (changed["card_id"], changed["replaced_by"], changed["reason"]) == (CARD, NEW, "lost")


def test_replaced_card_declines_and_its_refunds_still_post() -> None:
    life = Life(card(), account())
    replaced(life)
    declined = life.do(authorize(1)).reply
    assert getattr(declined, "response_code", None) == "41"
    assert approved(life.do(authorize(2, kind="refund", amount_minor=500)))
    assert life.account.posted_minor == 10_500
