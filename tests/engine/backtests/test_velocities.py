"""Authorization rules in back-tests: added and removed ones, and velocities of the second run."""

from __future__ import annotations

from typing import Any

import pytest

from engine.backtests.plan import Change, ControlsChange, Scope
from engine.backtests.recorded_run import MismatchError
from engine.controls import MccDeny
from engine.instant import DAY_MS
from engine.rules.model import Rule
from tests.engine.backtests.test_history import buy, live, owner_of, plan, present, reverse, turned
from tests.support.engine import build
from tests.support.engine.build import CARD
from tests.support.engine.journal import Owner
from tests.support.engine.rules import (
    change_card_rule,
    change_rule,
    condition,
    create_card_rule,
    create_rule,
    rule,
    velocity,
)

TWO_A_DAY = rule(9, velocity("count", "day", "gt", 2))
NO_GAMBLING = condition("mcc", "in", ["7995"])


def adding(*rules: Rule) -> Change:
    return Change(add_rules=rules)


def removing(*rules: Rule) -> Change:
    return Change(remove_rules=tuple(each.id for each in rules))


def days(owner: Owner, count: int) -> list[Any]:
    """Purchases of 1.00, one an hour."""
    bought = []
    for _ in range(count):
        owner.now_ms += 3_600_000
        bought.append(buy(owner, 100))
    return bought


def test_added_rule_declines() -> None:
    owner = owner_of()
    bet, food = buy(owner, 1_000, mcc="7995"), buy(owner, 1_000)
    tally, history = live(owner, plan(adding(rule(9, NO_GAMBLING))))
    assert turned(history) == {bet.id: "approved_to_declined"}
    assert list(tally.by_rule) == [f"rule:{rule(9).id}@1"]
    assert '"decline_detail":"reason_9"' in history.flips[0].after
    assert food.id not in turned(history)


def test_velocity_of_an_added_rule_counts_the_purchases_before_the_window() -> None:
    owner = owner_of(timezone="UTC")
    early = days(owner, 2)
    begin = owner.now_ms + 1
    late = days(owner, 2)
    _, history = live(owner, plan(adding(TWO_A_DAY), from_ms=begin))
    assert turned(history) == {each.id: "approved_to_declined" for each in late}
    assert not {each.id for each in early} & turned(history).keys()


def test_velocity_counts_the_purchases_of_the_second_run() -> None:
    """The bets that the change declines do not count there; a reversed purchase does not count either."""
    owner = owner_of(timezone="UTC")
    bets = [buy(owner, 100, mcc="7995") for _ in range(2)]
    bought = days(owner, 4)
    reverse(owner, bought[0])
    last = days(owner, 2)
    _, history = live(owner, plan(adding(TWO_A_DAY, rule(8, NO_GAMBLING))))
    declined = {each.id for each in (*bets, *bought[2:], last[1])}
    assert turned(history) == dict.fromkeys(declined, "approved_to_declined")


def test_removed_rule_and_its_velocity_no_longer_decline() -> None:
    owner = owner_of(timezone="UTC")
    owner.change_rules(create_rule(1, velocity("count", "day", "gt", 2)))
    owner.now_ms += 1
    bought = days(owner, 4)
    tally, history = live(owner, plan(removing(rule(1))))
    assert (tally.before.declined, tally.mismatches) == (2, 0)
    assert turned(history) == dict.fromkeys((each.id for each in bought[2:]), "declined_to_approved")


def test_recorded_velocities_decide_alike_after_the_runs_part() -> None:
    """The change frees a purchase for the recorded rule."""
    owner = owner_of(timezone="UTC")
    owner.change_rules(create_rule(1, velocity("count", "day", "gt", 2)))
    owner.now_ms += 1
    bet = buy(owner, 100, mcc="7995")
    bought = days(owner, 3)
    present(owner, bought[0])
    _, history = live(owner, plan(Change(ControlsChange(add=(MccDeny(("7995",)),)))))
    assert turned(history) == {bet.id: "approved_to_declined", bought[1].id: "declined_to_approved"}


def test_other_version_replaces_a_recorded_rule() -> None:
    owner = owner_of()
    owner.change_rules(create_rule(1, NO_GAMBLING))
    owner.now_ms += 1
    bet, food = buy(owner, 100, mcc="7995"), buy(owner, 100, mcc="5812")
    newer = rule(1, condition("mcc", "in", ["5812"]), version=2)
    _, history = live(owner, plan(adding(newer)))
    assert turned(history) == {bet.id: "declined_to_approved", food.id: "approved_to_declined"}


def test_rules_of_cards_are_followed_through_their_versions() -> None:
    owner = owner_of()
    owner.do(create_card_rule(1, NO_GAMBLING))
    first = buy(owner, 100, mcc="7995")
    owner.do(change_card_rule(1, when=(condition("mcc", "in", ["5812"]),)))
    second, third = buy(owner, 100, mcc="7995"), buy(owner, 100, mcc="5812")
    owner.do(change_card_rule(1, 2, state="retired"))
    buy(owner, 100, mcc="5812")
    tally, history = live(owner, plan(Change(remove_rules=(rule(1).id,)), scope=Scope("card", CARD)))
    assert tally.mismatches == 0
    assert turned(history) == dict.fromkeys((first.id, third.id), "declined_to_approved")
    assert second.id not in turned(history)


def test_velocity_of_an_account_counts_all_its_cards() -> None:
    owner = owner_of(timezone="UTC")
    second = build.create_card(2, account_id=owner.cards[CARD].account_id, opens_account=False)
    owner.issue(second)
    bought = [buy(owner, 100), buy(owner, 100, card_id=second.id), buy(owner, 100)]
    limit = rule(9, velocity("count", "day", "gt", 2, of="account"))
    _, history = live(owner, plan(adding(limit)))
    assert turned(history) == {bought[2].id: "approved_to_declined"}
    _, history = live(owner, plan(adding(TWO_A_DAY)))
    assert turned(history) == {}


def test_velocity_of_a_replacement_continues_that_of_its_card() -> None:
    owner = owner_of(timezone="UTC")
    days(owner, 2)
    replacement = build.replace_card(owner.number(), card_id=CARD)
    owner.do(replacement)
    owner.do(build.set_cardholder_status(owner.number(), card_id=replacement.id, active=True))
    owner.now_ms += 1
    third = buy(owner, 100, card_id=replacement.id)
    _, history = live(owner, plan(adding(TWO_A_DAY)))
    assert turned(history) == {third.id: "approved_to_declined"}


def test_trailing_window_forgets() -> None:
    owner = owner_of()
    days(owner, 2)
    owner.now_ms += DAY_MS
    days(owner, 2)
    _, history = live(owner, plan(adding(rule(9, velocity("count", "P1D", "gt", 2)))))
    assert turned(history) == {}


def test_shadow_rules_and_drafts_change_nothing() -> None:
    owner = owner_of()
    owner.change_rules(create_rule(1, NO_GAMBLING, state="shadow"))
    owner.now_ms += 1
    buy(owner, 100, mcc="7995")
    owner.change_rules(change_rule(1, state="retired"))
    owner.now_ms += 1
    buy(owner, 100, mcc="7995")
    tally, history = live(owner, plan(adding(rule(9, condition("mcc", "in", ["5812"])))))
    assert (tally.mismatches, turned(history)) == (0, {})


def test_unknown_version_is_a_mismatch() -> None:
    owner = owner_of()
    owner.change_rules(create_rule(1, NO_GAMBLING))
    owner.now_ms += 1
    buy(owner, 100)
    owner.programmes.rules.clear()
    owner.programmes._rules.clear()
    with pytest.raises(MismatchError):
        live(owner, plan(adding()))
