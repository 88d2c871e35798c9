"""Rules inside a decision: their order, their trace, velocity with the present purchase, and shadow rules."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.commands import Authorize
from engine.controls import MccDeny
from engine.decision.decide import Decision, authorize, must_call_endpoint
from engine.decision.inputs import Inputs
from engine.rules.evaluate import (
    NO_RULES,
    LivePast,
    RecordedPast,
    RuleSet,
    counted_of,
    in_force,
    recorded_rules,
    rule_set,
    rules_for,
)
from engine.rules.model import Rule
from engine.rules.observed import Observed, RulesInForce
from engine.rules.velocity import Counted, History
from engine.trace import TraceStep
from tests.support.engine.build import NOW_MS, PRODUCT, an_id, card
from tests.support.engine.build import authorize as spend
from tests.support.engine.build import inputs as seen
from tests.support.engine.increments import original_of
from tests.support.engine.rules import condition, rule, velocity

CASINO = condition("mcc", "eq", "7995")
GROCER = condition("mcc", "eq", "5411")


def decide(
    rules: RuleSet, command: Authorize | None = None, observed: tuple[Observed, ...] = (), **state: Any
) -> Decision:
    """The decision on a purchase at a grocer's under ``rules``."""
    command = command or spend(1)
    facts = in_force(rules, RecordedPast(observed), command, "UTC", NOW_MS, NOW_MS) if rules.readers else None
    return authorize(command, seen(**{"rules_in_force": facts} | state), rules)


def steps(decision: Decision) -> list[TraceStep]:
    return [step for step in decision.trace if step.rule.startswith("rule:")]


def test_the_first_rule_that_matches_declines_with_its_own_reason() -> None:
    rules = rule_set([rule(1, CASINO), rule(2, GROCER, reason="no_food"), rule(3, GROCER)])
    decision = decide(rules)
    assert (decision.reason, decision.response_code) == ("rule_declined", "05")
    assert decision.decline_detail == "no_food"
    assert decision.matched_rule == (rule(2).id, 1)
    assert steps(decision) == [
        TraceStep(f"rule:{rule(1).id}@1", "pass", "5411", "mcc eq 7995"),
        TraceStep(f"rule:{rule(2).id}@1", "fail", "5411", "mcc eq 5411"),
    ]


def test_all_conditions_of_a_rule_must_hold() -> None:
    rules = rule_set([rule(1, GROCER, condition("amount", "gt", 1_000), version=7)])
    assert decide(rules, spend(1, amount_minor=1_001)).reason == "rule_declined"
    passed = decide(rules, spend(1, amount_minor=1_000))
    assert passed.reason is None
    assert passed.decline_detail is None
    assert steps(passed) == [TraceStep(f"rule:{rule(1).id}@7", "pass", "10.00", "amount gt 10.00")]


def test_rules_come_after_controls_and_before_risk_and_funds() -> None:
    rules = rule_set([rule(1, GROCER)])
    assert decide(rules, controls=(MccDeny(("5411",)),)).reason == "mcc_not_allowed"
    risky = spend(1, channel="moto", entry_mode="magstripe", mcc="7995")
    assert (
        decide(rule_set([rule(1, CASINO)]), risky, cvv2_failures=3, day="2026-11-21").reason
        == "rule_declined"
    )
    assert decide(rules, posted_minor=0).reason == "rule_declined"
    assert decide(rules, spend(1, currency="USD")).reason == "currency_not_supported"


@pytest.mark.parametrize(("network", "code"), [("visa", "1A"), ("mastercard", "65")])
def test_authentication_is_required_of_ecommerce_without_a_result(network: str, code: str) -> None:
    rules = rule_set([rule(1, GROCER, action="require_authentication")])
    bare = decide(rules, spend(1, channel="ecommerce"), network=network)
    assert (bare.reason, bare.response_code) == ("authentication_required", code)
    for parts in ({"authentication": "valid"}, {"mit": True}, {"channel": "pos"}):
        decision = decide(rules, spend(1, **{"channel": "ecommerce"} | parts))
        assert decision.reason is None
        assert steps(decision)[-1].limit == "unauthenticated_ecommerce eq true"


@pytest.mark.parametrize(
    ("command", "state"),
    [(spend(1, kind="refund"), {}), (spend(1, amount_minor=0), {})],
)
def test_refunds_and_verifications_have_no_rules(command: Authorize, state: dict[str, Any]) -> None:
    rules = rule_set([rule(1, GROCER)], [rule(2, GROCER)])
    decision = decide(rules, command, **state)
    assert decision.reason is None
    assert steps(decision) == []
    assert decision.shadow_matches == ()


# --- velocity ----------------------------------------------------------------------------------------------

AT_MOST_THREE = velocity("count", "PT10M", "gt", 3)


@pytest.mark.parametrize(
    ("made", "observed", "command", "seen_value"),
    [
        (AT_MOST_THREE, Observed(2), spend(1), 3),
        (AT_MOST_THREE, Observed(3), spend(1), 4),
        (velocity("amount", "day", "gt", 5_000), Observed(4_000), spend(1, amount_minor=1_000), "50.00"),
        (velocity("declines", "PT1H", "gte", 2), Observed(2), spend(1), 2),
        (velocity("distinct_merchants", "P1D", "gt", 2), Observed(2, seen=True), spend(1), 2),
        (velocity("distinct_merchants", "P1D", "gt", 2), Observed(2, seen=False), spend(1), 3),
        (velocity("distinct_countries", "P1D", "gt", 2), Observed(1, seen=False), spend(1), 2),
        (velocity("count", "P1D", "gt", 9, CASINO), Observed(5), spend(1), 5),
        (velocity("count", "P1D", "gt", 9, CASINO), Observed(5), spend(1, mcc="7995"), 6),
        (condition("first_at_merchant", "eq", True), Observed(2, seen=False), spend(1), "true"),
        (condition("first_at_merchant", "eq", True), Observed(2, seen=True), spend(1), "false"),
    ],
)
def test_a_velocity_includes_the_present_purchase(
    made: Any, observed: Observed, command: Authorize, seen_value: Any
) -> None:
    (step,) = steps(decide(rule_set([rule(1, made)]), command, (observed,)))
    assert step.observed == seen_value


def test_an_increment_adds_its_amount_and_no_count() -> None:
    rules = rule_set(
        [
            rule(1, AT_MOST_THREE),
            rule(2, velocity("amount", "day", "gt", 5_000)),
            rule(3, condition("first_at_merchant", "eq", True)),
        ]
    )
    raising = spend(2, amount_minor=500)
    decision = decide(
        rules, raising, (Observed(3), Observed(4_500), Observed(0)), original=original_of(1_000)
    )
    assert [step.observed for step in steps(decision)] == [3, "50.00", "false"]


def test_a_velocity_that_several_rules_use_is_observed_once() -> None:
    rules = rule_set([rule(1, AT_MOST_THREE, CASINO), rule(2, AT_MOST_THREE)], [rule(3, AT_MOST_THREE)])
    assert len(rules.velocities) == 1
    assert rules.card_velocities == rules.velocities
    assert rules.account_velocities == ()
    assert len(rules.readers) == 2


def test_the_past_of_card_and_account_are_told_apart() -> None:
    of_account = velocity("count", "PT10M", "gt", 3, of="account")
    rules = rule_set([rule(1, AT_MOST_THREE), rule(2, of_account)])
    histories = [History(), History()]
    for history, velocities, number in zip(
        histories, (rules.card_velocities, rules.account_velocities), (1, 2), strict=True
    ):
        history.load(velocities, "UTC", [purchase(each) for each in range(number)])
    past = LivePast(*histories)
    assert past.observe(rules.velocities, "UTC", NOW_MS, purchase(9)) == (Observed(1), Observed(2))


def purchase(number: int) -> Counted:
    made = counted_of(spend(number), NOW_MS)
    made.count = 1
    return made


# --- the set of rules --------------------------------------------------------------------------------------


def names(rules: RuleSet) -> list[str]:
    return [name for name, _ in rules.versions]


def test_rules_of_programme_product_and_card_are_in_order_of_creation() -> None:
    other = an_id(0xD2)
    of_product = {"scope": "card_product", "scope_id": PRODUCT}
    of_programme: tuple[Rule, ...] = (
        rule(5),
        rule(3, **of_product),
        rule(4),
        rule(1, **of_product),
        rule(2, scope="card_product", scope_id=other),
        rule(6, state="draft"),
        rule(7, state="shadow"),
    )
    of_card = (rule(9, scope="card", scope_id=card().id), rule(8, scope="card", scope_id=card().id))
    rules = rules_for(PRODUCT, of_programme, of_card)
    assert names(rules) == [rule(number).id for number in (4, 5, 1, 3, 8, 9)]
    assert rules.shadow_versions == ((rule(7).id, 1),)
    assert rules_for(PRODUCT, (), ()) is NO_RULES
    assert rules_for(PRODUCT, (rule(6, state="draft"),), ()) is NO_RULES


def test_recorded_rules_are_those_that_decided() -> None:
    active, shadow = rule(1, GROCER, version=3), rule(2, CASINO)
    rules = rule_set([active], [shadow])
    stored = RulesInForce(rules.versions, rules.shadow_versions)
    versions = {(each.id, each.version): each for each in (active, shadow)}
    assert recorded_rules(stored, versions) == rules
    assert recorded_rules(None, {}) is NO_RULES
    with pytest.raises(KeyError):
        recorded_rules(stored, {})


def test_stored_inputs_decode_with_and_without_rules() -> None:
    rules = rule_set([rule(1, AT_MOST_THREE)], [rule(2)])
    facts = in_force(rules, RecordedPast((Observed(2),)), spend(1), "UTC", NOW_MS, 5)
    for made in (seen(), seen(rules_in_force=facts)):
        assert msgspec.json.decode(msgspec.json.encode(made), type=Inputs) == made
    assert in_force(rule_set([rule(1)]), None, spend(1), "UTC", NOW_MS, 5).observed == ()


# --- shadow rules ------------------------------------------------------------------------------------------


def test_shadow_rules_are_recorded_and_change_nothing() -> None:
    rules = rule_set([], [rule(1, GROCER), rule(2, CASINO), rule(3)])
    decision = decide(rules)
    assert decision.reason is None
    assert steps(decision) == []
    assert decision.shadow_matches == ((rule(1).id, 1),)
    plain = decide(NO_RULES)
    assert msgspec.structs.replace(decision, shadow_matches=()) == plain


def test_shadow_rules_are_evaluated_whatever_the_decision() -> None:
    rules = rule_set([rule(9, GROCER)], [rule(1, GROCER)])
    assert decide(rules).shadow_matches == ((rule(1).id, 1),)
    assert decide(rules, card_state="suspended").shadow_matches == ((rule(1).id, 1),)
    assert decide(rules, spend(1, currency="USD")).shadow_matches == ()


def test_a_rule_that_declines_spares_the_call_to_the_endpoint() -> None:
    rules = rule_set([rule(1, GROCER)])
    inputs = seen(decisioning="delegated")
    assert must_call_endpoint(spend(1), inputs)
    assert not must_call_endpoint(spend(1), inputs, rules)
