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
from engine.decision.inputs import Inputs
from engine.instant import DAY_MS
from engine.limits import WIRE_AMOUNT_MINOR_MAX
from engine.programmes.programme import ProgrammeConfig
from engine.rules.evaluate import RecordedPast, RuleSet, rule_set
from engine.rules.model import Condition, Op
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
