"""Headroom: its bounds, and the property that it is exact."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from engine.authorization.authorizing import present_inputs
from engine.authorization.executed import CommandContext
from engine.cards.account import Account, place_hold
from engine.cards.card import Card
from engine.cards.hold import Hold
from engine.commands import Authorize
from engine.controls import ChannelDeny, Control, CountryDeny, MccDeny, PerDayAmountCap, PerDayCap, PerTxnCap
from engine.decision.decide import authorize, must_call_endpoint
from engine.decision.delegation import EndpointResult
from engine.decision.headroom import Binding, Headroom, Limit, headroom
from engine.decision.inputs import Inputs, RulesInForce
from engine.instant import DAY_MS
from engine.limits import WIRE_AMOUNT_MINOR_MAX
from engine.programmes.programme import ProgrammeConfig
from engine.rules.evaluate import RecordedPast, RuleSet, rule_set
from engine.rules.model import Condition, Op, Rule
from engine.rules.observed import Observed
from tests.support.engine.build import CARD, NOW_MS, account, an_id, card, inputs, programme
from tests.support.engine.build import authorize as spend
from tests.support.engine.rules import condition, rule, velocity

CARDS = 10_000
TODAY, YESTERDAY = "2026-11-21", "2026-11-20"
MIDNIGHT_MS = NOW_MS + 14 * 3_600_000
RISKY: dict[str, Any] = {"channel": "moto", "mcc": "7995", "merchant_country": "US"}
"""75 points; 15 more from 5,000.00."""


def measure(command: Authorize | None = None, **parts: Any) -> Headroom:
    return headroom(command or spend(), inputs(**parts))


# --- single limits ---


@pytest.mark.parametrize(
    ("parts", "max_minor", "binding"),
    [
        ({}, 10_000, Binding("funds", "insufficient_funds", 10_000, 0, "amount")),
        ({"held_minor": 2_500}, 7_500, Binding("funds", "insufficient_funds", 10_000, 2_500, "amount")),
        ({"held_minor": 12_500}, 0, Binding("funds", "insufficient_funds", 10_000, 12_500, "amount")),
        ({"posted_minor": None}, 0, Binding("funds", "insufficient_funds", 0, 0, "amount")),
        (
            {"controls": (PerTxnCap(9_000), PerTxnCap(3_000))},
            3_000,
            Binding("per_txn_cap", "per_txn_cap_exceeded", 3_000, 0, "amount"),
        ),
        (
            {"controls": (PerDayAmountCap(8_000),), "day": TODAY, "day_amount_minor": 7_000},
            1_000,
            Binding("per_day_amount_cap", "per_day_amount_exceeded", 8_000, 7_000, "amount"),
        ),
        (
            {"controls": (PerDayAmountCap(8_000),), "day": YESTERDAY, "day_amount_minor": 7_000},
            8_000,
            Binding("per_day_amount_cap", "per_day_amount_exceeded", 8_000, 0, "amount"),
        ),
        (
            {"controls": (PerDayCap(2),), "day": TODAY, "day_count": 2},
            0,
            Binding("per_day_cap", "per_day_count_exceeded", 2, 2, "count"),
        ),
        ({"controls": (PerDayCap(2),), "day": TODAY, "day_count": 1}, 10_000, None),
        ({"controls": (MccDeny(("5411",)),)}, 0, Binding("mcc_deny", "mcc_not_allowed", None, "5411")),
        ({"card_state": "suspended"}, 0, Binding("card_state", "card_suspended", "active", "suspended")),
    ],
)
def test_the_least_limit_binds(parts: dict[str, Any], max_minor: int, binding: Binding | None) -> None:
    found = measure(**parts)
    assert found.max_minor == max_minor
    assert binding is None or found.binding == binding


@pytest.mark.parametrize(
    ("failures", "max_minor", "used"), [(0, 499_999, 90), (2, 0, 95), (1, 499_999, 100)], ids=str
)
def test_risk_binds_by_its_points(failures: int, max_minor: int, used: int) -> None:
    found = measure(spend(**RISKY), posted_minor=10**9, day=TODAY, cvv2_failures=failures)
    assert found.max_minor == max_minor
    assert found.binding == Binding("risk", "risk_blocked", 90, used)


def test_without_a_limit_every_amount_of_a_message_passes() -> None:
    assert measure(programme_mode="gateway", posted_minor=None) == Headroom(WIRE_AMOUNT_MINOR_MAX, None, ())
    rich = measure(posted_minor=WIRE_AMOUNT_MINOR_MAX)
    assert (rich.max_minor, rich.binding) == (WIRE_AMOUNT_MINOR_MAX, None)


def test_limits_have_the_order_of_evaluation_and_the_end_of_the_day() -> None:
    controls = (PerTxnCap(9_000), PerDayCap(3), PerDayAmountCap(8_000))
    found = measure(
        spend(**RISKY), controls=controls, day=TODAY, day_count=1, day_amount_minor=500, held_minor=1_000
    )
    assert found.limits == (
        Limit("per_txn_cap", 9_000),
        Limit("per_day_cap", 3, 1, "count", MIDNIGHT_MS),
        Limit("per_day_amount_cap", 8_000, 500, "amount", MIDNIGHT_MS),
        Limit("risk", 499_999),
        Limit("funds", 10_000, 1_000),
    )
    assert [limit.remaining for limit in found.limits] == [9_000, 2, 7_500, 499_999, 9_000]


def test_day_of_the_counters_ends_in_the_zone_of_the_programme() -> None:
    (limit, *_) = measure(controls=(PerDayCap(3),), timezone="America/New_York").limits
    assert limit.resets_ms == MIDNIGHT_MS + 5 * 3_600_000


def test_answer_of_a_programme_has_no_part_in_headroom() -> None:
    declined = EndpointResult("declined")
    assert measure(decisioning="delegated", endpoint_result=declined).max_minor == 10_000


# --- authorization rules ---


def with_rules(*rules: Rule, observed: tuple[Observed, ...] = (), **parts: Any) -> Headroom:
    active = rule_set(rules)
    in_force = RulesInForce(active.versions, (), observed, NOW_MS)
    return headroom(spend(), inputs(rules_in_force=in_force, **parts), active)


def label(number: int) -> str:
    return f"rule:{rule(number).id}@1"


@pytest.mark.parametrize(
    ("when", "max_minor"),
    [
        ((condition("amount", "gt", 3_000),), 3_000),
        ((condition("amount", "gte", 3_000),), 2_999),
        ((condition("amount", "between", [8_000, 20_000]),), 7_999),
        ((condition("amount", "between", [2_000, 8_000]),), 10_000),
        ((condition("amount", "lt", 3_000),), 10_000),
        ((condition("amount", "lt", 10_001),), 0),
        ((condition("amount", "eq", 10_000),), 9_999),
        ((condition("amount", "gt", 3_000), condition("mcc", "in", ["5411"])), 3_000),
        ((condition("amount", "gt", 3_000), condition("mcc", "in", ["7995"])), 10_000),
        ((condition("mcc", "in", ["5411"]),), 0),
        ((condition("risk_score", "gte", 15), condition("amount", "gt", 3_000)), 10_000),
    ],
)
def test_rules_decline_ranges_of_amounts(when: tuple[Any, ...], max_minor: int) -> None:
    found = with_rules(rule(1, *when))
    assert found.max_minor == max_minor
    expected = "funds" if max_minor == 10_000 else label(1)
    assert (found.binding.rule if found.binding else None) == expected


def test_adjacent_rules_decline_together() -> None:
    ranges = ([9_000, 10_000], [8_000, 8_999], [2_000, 3_000], [7_000, 8_500])
    found = with_rules(
        *(rule(number, condition("amount", "between", each)) for number, each in enumerate(ranges))
    )
    assert found.max_minor == 6_999
    assert found.binding == Binding(
        label(3), "rule_declined", "amount between 70.00, 85.00", "70.00", None, "reason_3"
    )


@pytest.mark.parametrize(
    ("measured", "observed", "max_minor", "binding"),
    [
        (velocity("amount", "month", "gt", 5_000), Observed(1_500), 3_500, (5_000, 1_500, "amount")),
        (velocity("amount", "PT1H", "gte", 5_000), Observed(1_500), 3_499, (4_999, 1_500, "amount")),
        (velocity("count", "PT10M", "gt", 3), Observed(3), 0, (3, 3, "count")),
        (velocity("count", "PT10M", "gt", 3), Observed(2), 10_000, None),
        (velocity("distinct_merchants", "day", "gt", 2), Observed(2), 0, (2, 2, "count")),
        (velocity("distinct_merchants", "day", "gt", 2), Observed(2, True), 10_000, None),
        (
            velocity("count", "day", "gt", 1, condition("amount", "gte", 4_000)),
            Observed(1),
            3_999,
            (1, 1, "count"),
        ),
        (
            velocity("amount", "day", "gt", 5_000, condition("mcc", "in", ["7995"])),
            Observed(5_000),
            10_000,
            None,
        ),
    ],
)
def test_velocity_binds(
    measured: Condition, observed: Observed, max_minor: int, binding: tuple[Any, ...] | None
) -> None:
    found = with_rules(rule(1, measured), observed=(observed,))
    assert found.max_minor == max_minor
    if binding is None:
        assert found.binding is not None
        assert found.binding.rule == "funds"
    else:
        limit, used, unit = binding
        assert found.binding == Binding(label(1), "rule_declined", limit, used, unit, "reason_1")


@pytest.mark.parametrize(
    ("window", "days"),
    [("day", 1), ("week", 2), ("month", 10), ("year", 41), ("lifetime", None), ("P7D", None)],
)
def test_limits_have_the_end_of_their_window(window: str, days: int | None) -> None:
    """The present day is Saturday, 2026-11-21."""
    measured = velocity("amount", window, "gt", 5_000)
    found = with_rules(rule(1, measured), observed=(Observed(700),), controls=(PerTxnCap(9_000),))
    resets_ms = None if days is None else MIDNIGHT_MS + (days - 1) * DAY_MS
    assert found.limits == (
        Limit("per_txn_cap", 9_000),
        Limit(label(1), 5_000, 700, "amount", resets_ms),
        Limit("funds", 10_000, 0),
    )


@pytest.mark.parametrize(
    ("when", "limits"),
    [
        ((condition("amount", "gt", 3_000), condition("mcc", "in", ["7995"])), 0),
        ((condition("amount", "gt", 3_000), condition("mcc", "in", ["5411"])), 1),
        ((condition("amount", "lt", 3_000),), 0),
        ((condition("amount", "between", [1, 2]),), 0),
        ((condition("risk_score", "gt", 50),), 0),
        ((velocity("declines", "day", "gt", 3),), 0),
        ((velocity("count", "day", "gt", 3, condition("channel", "eq", "moto")),), 0),
        ((velocity("count", "day", "gt", 3, condition("channel", "eq", "pos")),), 1),
    ],
)
def test_limits_are_those_that_the_purchase_uses(when: tuple[Condition, ...], limits: int) -> None:
    found = with_rules(rule(1, *when), observed=(Observed(1),))
    assert sum(limit.rule == label(1) for limit in found.limits) == limits


def test_demanded_authentication_has_its_reason() -> None:
    demanding = rule(1, condition("amount", "gt", 3_000), action="require_authentication")
    active = rule_set((demanding,))
    seen = inputs(rules_in_force=RulesInForce(active.versions))
    found = headroom(spend(channel="ecommerce"), seen, active)
    assert (found.max_minor, found.binding and found.binding.reason) == (3_000, "authentication_required")
    assert headroom(spend(channel="pos"), seen, active).max_minor == 10_000


# --- 10,000 random cards ---


def near(dice: Random) -> int:
    """An amount near the others, so that limits compete; sometimes a special one."""
    return dice.choice((0, 1, dice.randrange(1, 12_000), dice.randrange(1, 12_000), dice.randrange(10**7)))


def random_controls(dice: Random, currency: str) -> tuple[Control, ...]:
    made: list[Control] = []
    if dice.random() < 0.06:
        made.append(MccDeny((dice.choice(("5411", "7995")),)))
    if dice.random() < 0.06:
        made.append(CountryDeny(("US",)))
    if dice.random() < 0.06:
        made.append(ChannelDeny((dice.choice(("moto", "pos")),)))
    made += [PerTxnCap(near(dice)) for _ in range(dice.choice((0, 0, 1, 2)))]
    made += [PerDayCap(dice.randrange(6)) for _ in range(dice.choice((0, 0, 1)))]
    made += [PerDayAmountCap(near(dice)) for _ in range(dice.choice((0, 0, 1, 2)))]
    return tuple(made)


def random_card(dice: Random, currency: str) -> Card:
    return card(
        currency=currency,
        state=dice.choices(("active", "suspended", "lost"), (40, 1, 1))[0],
        cardholder_active=dice.random() < 0.98,
        exp_year=dice.choices((2029, 2026, 2025), (40, 1, 1))[0],
        controls=random_controls(dice, currency),
        day=dice.choice((TODAY, TODAY, YESTERDAY, "")),
        day_count=dice.randrange(6),
        day_amount_minor=near(dice),
        cvv2_failures=dice.choice((0, 0, 0, 1, 3, 5)),
    )


def random_account(dice: Random, currency: str) -> Account | None:
    if dice.random() < 0.03:
        return None
    made = account(currency=currency, posted_minor=near(dice) - dice.choice((0, 0, 0, 3_000)))
    for number in range(dice.randrange(4)):
        expires_ms = NOW_MS + dice.choice((-1, 0, 1, DAY_MS))
        place_hold(
            made, Hold(an_id(0x900 + number), CARD, an_id(0x800 + number), near(dice) // 4, expires_ms)
        )
    return made


def random_programme(dice: Random, currency: str) -> ProgrammeConfig:
    return programme(
        currency=currency,
        mode=dice.choices(("managed", "gateway"), (9, 1))[0],
        decisioning=dice.choices(("platform", "delegated"), (4, 1))[0],
        status=dice.choices(("active", "suspended"), (40, 1))[0],
        timezone=dice.choice(("UTC", "Europe/Dublin", "Pacific/Apia", "America/New_York")),
    )


def random_condition(dice: Random) -> Condition:
    """Mostly conditions about amounts, which decide headroom."""
    low, high = sorted((near(dice), near(dice)))
    op: Op = dice.choice(("eq", "lt", "lte", "gt", "gt", "gte", "gte"))
    count = dice.randrange(5)
    filtered = condition("amount", dice.choice(("gt", "lt")), near(dice))
    window = dice.choice(("PT10M", "day", "month", "lifetime"))
    return dice.choice(
        (
            condition("amount", op, near(dice)),
            condition("amount", "between", [low, high]),
            condition("risk_score", op, dice.choice((15, 75, 90))),
            condition("mcc", "in", [dice.choice(("5411", "7995", "5000-5999"))]),
            condition("channel", "ne", "atm"),
            condition("first_at_merchant", "eq", value=dice.random() < 0.5),
            velocity("amount", window, op, near(dice)),
            velocity("amount", window, op, near(dice), filtered),
            velocity("count", window, op, count),
            velocity("count", window, op, count, filtered),
            velocity("declines", window, op, count),
            velocity("distinct_merchants", window, op, count, of="account"),
        )
    )


def random_rules(dice: Random) -> RuleSet:
    """None for half of the cards; otherwise up to six rules of up to three conditions."""
    return rule_set(
        rule(
            number,
            *(random_condition(dice) for _ in range(dice.randrange(1, 4))),
            action=dice.choice(("decline", "decline", "require_authentication")),
        )
        for number in range(dice.choice((0, 0, 0, 1, 2, 6)))
    )


def random_past(dice: Random, rules: RuleSet) -> RecordedPast:
    return RecordedPast(
        tuple(
            Observed(near(dice) if each.measure == "amount" else dice.randrange(5), dice.random() < 0.5)
            for each in rules.velocities
        )
    )


def random_purchase(dice: Random, currency: str) -> Authorize:
    return spend(
        amount_minor=near(dice),
        currency=currency,
        mcc=dice.choice(("5411", "5411", "7995")),
        merchant_country=dice.choice(("IE", "IE", "US")),
        channel=dice.choice(("pos", "ecommerce", "atm", "moto")),
        entry_mode=dice.choice(("chip", "contactless", "magstripe", None)),
    )


def at(command: Authorize, amount_minor: int) -> Authorize:
    return msgspec.structs.replace(command, amount_minor=amount_minor)


def answered(seen: Inputs) -> Inputs:
    """``seen`` after a delegated programme has approved."""
    if seen.decisioning == "platform":
        return seen
    return msgspec.structs.replace(seen, endpoint_result=EndpointResult("approved"))


def test_headroom_is_approved_and_one_minor_unit_more_is_declined_by_the_binding_rule() -> None:
    dice, bound_by = Random(20), set[str]()
    for _ in range(CARDS):
        currency = dice.choice(("JPY", "EUR", "KWD"))
        rules = random_rules(dice)
        context = CommandContext(
            random_card(dice, currency),
            random_account(dice, currency),
            random_programme(dice, currency),
            rules=rules,
            past=random_past(dice, rules),
        )
        command = random_purchase(dice, currency)
        seen = present_inputs(context, NOW_MS, command)
        found = headroom(command, seen, rules)
        if found.max_minor:
            approved = authorize(at(command, found.max_minor), answered(seen), rules)
            assert (approved.decision, approved.approved_minor) == ("approved", found.max_minor)
        if found.binding is None:
            assert found.max_minor == WIRE_AMOUNT_MINOR_MAX
            continue
        more = at(command, found.max_minor + 1)
        declined = authorize(more, answered(seen), rules)
        assert (declined.decision, declined.reason) == ("declined", found.binding.reason)
        assert declined.trace[-1].rule == found.binding.rule
        assert not must_call_endpoint(more, seen, rules)
        # No larger amount of the neighbourhood passes either: the headroom is the largest one.
        larger = (found.max_minor + 1 + dice.randrange(10**4) for _ in range(3))
        assert all(authorize(at(command, each), answered(seen), rules).reason for each in larger)
        bound_by.add(found.binding.rule.partition(":")[0])
    assert bound_by >= {
        "card_state", "card_expiry", "cardholder", "programme", "mcc_deny", "country_deny",
        "channel_deny", "per_txn_cap", "per_day_cap", "per_day_amount_cap", "rule", "risk", "funds",
    }  # fmt: skip
