"""A decision that a change is said to leave as it was stays as it was."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from engine.authorization.authorizing import decision_inputs
from engine.authorization.executed import CommandContext
from engine.backtests.unaffected import is_unaffected
from engine.controls import Control, MccDeny, PerDayCap, PerTxnCap, in_precedence
from engine.decision.decide import authorize
from engine.instant import day_label
from engine.rules.evaluate import NO_RULES, RuleSet, rule_set
from engine.rules.model import Rule
from tests.support.engine import build
from tests.support.engine.build import NOW_MS
from tests.support.engine.rules import condition, rule

CONTROLS: tuple[Control, ...] = (MccDeny(("7995",)), PerTxnCap(2_000), PerDayCap(3), PerTxnCap(3_000))
RULES = (
    rule(1, condition("amount", "gt", 2_500)),
    rule(2, condition("mcc", "eq", "5812")),
    rule(3, condition("merchant_country", "eq", "FR"), condition("amount", "gt", 500)),
)


def test_unaffected_decisions_have_the_same_effects_under_the_change() -> None:
    outcomes: dict[bool, int] = {True: 0, False: 0}
    for seed in range(3_000):
        dice = random.Random(seed)
        controls = in_precedence(chosen(dice, CONTROLS))
        rules = rules_of(chosen(dice, RULES))
        added_controls = tuple(each for each in chosen(dice, CONTROLS) if each not in controls)
        added_rules = tuple(
            each for each in chosen(dice, RULES) if (each.id, each.version) not in rules.versions
        )
        command = build.authorize(
            amount_minor=dice.choice((0, 400, 1_500, 2_200, 2_800, 9_000)),
            mcc=dice.choice(("5411", "5812", "7995")),
            merchant_country=dice.choice(("IE", "FR")),
            kind=dice.choice(("purchase", "purchase", "purchase", "refund")),
        )
        card = build.card(
            controls=controls,
            day_count=dice.randint(0, 4),
            day=day_label(NOW_MS, build.programme().timezone),
            state=dice.choice(("active", "active", "active", "suspended")),
        )
        account = build.account(posted_minor=dice.choice((1_000, 5_000)))
        context = CommandContext(card, account, build.programme(), rules=rules)
        inputs = decision_inputs(context, NOW_MS, (), command)
        decision = authorize(command, inputs, rules)
        said = is_unaffected(
            command, inputs, decision, added_controls, rules_of(added_rules), None, card.created_ms
        )
        outcomes[said] += 1
        changed = msgspec.structs.replace(card, controls=in_precedence((*controls, *added_controls)))
        both = rules_of(
            (*(each for each in RULES if (each.id, each.version) in rules.versions), *added_rules)
        )
        context = CommandContext(changed, account, build.programme(), rules=both)
        after = authorize(command, decision_inputs(context, NOW_MS, (), command), both)
        if said:
            assert (after.reason, after.approved_minor, after.hold_expires_ms) == (
                decision.reason,
                decision.approved_minor,
                decision.hold_expires_ms,
            )
    assert min(outcomes.values()) > 300


def chosen(dice: random.Random, things: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(each for each in things if dice.random() < 0.3)


def rules_of(rules: tuple[Rule, ...]) -> RuleSet:
    return rule_set(rules) if rules else NO_RULES
