"""Stand-in: the rules in order of precedence, and budgets that are never exceeded."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.programmes.stand_in import (
    Grant,
    Outage,
    StandInPolicy,
    Triggers,
    grant,
    response_code,
    rule_at_decision,
    under_policy,
)
from tests.support.engine.build import NOW_MS, an_id, ask, policy

OUTAGE = an_id(0xF1)
OPEN = Outage(OUTAGE, NOW_MS, "EUR")

# Each case fails the rule of its row and all later rules; the first failing rule must decide.
BROKEN_FROM: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("mode_disabled", {"mode": "disabled"}, {}),
    ("mode_decline_all", {"mode": "decline_all"}, {}),
    ("max_amount_not_set", {"max_amount_minor": None}, {}),
    ("max_total_exposure_not_set", {"max_total_exposure_minor": None, "budget_currency": None}, {}),
    ("currency_mismatch", {"budget_currency": "USD"}, {}),
    ("mcc_not_permitted", {"mcc_list": ("5411",)}, {}),
    ("declared_balance_missing", {}, {"declared_remaining_minor": None}),
    ("max_amount_exceeded", {"max_amount_minor": 999}, {}),
    ("declared_balance_exceeded", {}, {"declared_remaining_minor": 999}),
    ("max_total_exposure_exceeded", {"max_total_exposure_minor": 999}, {}),
]


@pytest.mark.parametrize("position", range(len(BROKEN_FROM)))
def test_first_failing_rule_is_granted(position: int) -> None:
    policy_parts: dict[str, Any] = {}
    ask_parts: dict[str, Any] = {}
    for _, broken_policy, broken_ask in reversed(BROKEN_FROM[position:]):
        policy_parts |= broken_policy
        ask_parts |= broken_ask
    outage, (granted,) = grant(policy(**policy_parts), None, [ask(**ask_parts)], OUTAGE, NOW_MS)
    assert granted.rule == BROKEN_FROM[position][0]
    assert outage is not None, "a refused stand-in starts an outage too"
    assert (outage.id, outage.used_minor) == (OUTAGE, 0)
    assert granted.outage_id == OUTAGE


@pytest.mark.parametrize(
    ("listed", "mode", "permitted"),
    [
        ((), "deny", True),
        (("5411",), "deny", False),
        (("6011",), "deny", True),
        ((), "allow", False),
        (("5411",), "allow", True),
        (("6011",), "allow", False),
    ],
)
def test_mcc_list_allows_or_denies(listed: tuple[str, ...], mode: Any, permitted: bool) -> None:
    _, (granted,) = grant(policy(mcc_list=listed, mcc_list_mode=mode), None, [ask()], OUTAGE, NOW_MS)
    assert granted.rule == ("within_ceilings" if permitted else "mcc_not_permitted")


@pytest.mark.parametrize("trigger", ["connection_error", "timeout", "invalid_response"])
def test_disabled_trigger_starts_no_outage(trigger: Any) -> None:
    off = msgspec.structs.replace(Triggers(), **{trigger: False})
    assert grant(policy(triggers=off), None, [ask(trigger=trigger)], OUTAGE, NOW_MS) == (
        None,
        (Grant("not_triggered"),),
    )
    _, (granted,) = grant(policy(), None, [ask(trigger=trigger)], OUTAGE, NOW_MS)
    assert granted.rule == "within_ceilings"


def test_budget_is_exhausted_exactly() -> None:
    made = policy(max_amount_minor=1_000, max_total_exposure_minor=2_000)
    asks = [
        ask(1),
        ask(2, amount_minor=999),
        ask(3, amount_minor=2),
        ask(4, amount_minor=1),
        ask(5, amount_minor=1),
    ]
    outage, granted = grant(made, OPEN, asks, "unused", NOW_MS)
    assert [each.rule for each in granted] == [
        "within_ceilings",
        "within_ceilings",
        "max_total_exposure_exceeded",
        "within_ceilings",
        "max_total_exposure_exceeded",
    ]
    assert [each.used_minor for each in granted] == [1_000, 1_999, 1_999, 2_000, 2_000]
    assert {each.limit_minor for each in granted} == {2_000}
    assert outage == msgspec.structs.replace(OPEN, used_minor=2_000)


def test_second_stand_in_continues_the_outage() -> None:
    first, _ = grant(policy(), None, [ask(1)], OUTAGE, NOW_MS)
    second, (granted,) = grant(policy(), first, [ask(2)], an_id(0xF2), NOW_MS + 5)
    assert second is not None
    assert (second.id, second.started_ms, granted.outage_id) == (OUTAGE, NOW_MS, OUTAGE)


def test_change_of_budget_currency_starts_a_period() -> None:
    used = msgspec.structs.replace(OPEN, used_minor=9_000)
    assert under_policy(used, policy(max_amount_minor=1)) is used
    again = under_policy(used, policy(budget_currency="USD"))
    assert (again.id, again.period, again.currency, again.used_minor) == (OUTAGE, 2, "USD", 0)
    back = under_policy(again, policy())
    assert (back.period, back.currency, back.used_minor) == (3, "EUR", 0)


@pytest.mark.parametrize(
    ("granted", "remaining_minor", "counts"),
    [
        ("within_ceilings", 1_000, "within_ceilings"),
        ("within_ceilings", 999, "declared_balance_exceeded"),
        ("within_ceilings", None, "declared_balance_missing"),
        ("max_amount_exceeded", 0, "max_amount_exceeded"),
        ("budget_unreachable", None, "budget_unreachable"),
    ],
)
def test_declared_balance_is_checked_again_at_the_decision(
    granted: Any, remaining_minor: int | None, counts: str
) -> None:
    assert rule_at_decision(granted, 1_000, remaining_minor) == counts


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("mode_disabled", "05"),
        ("max_amount_not_set", "05"),
        ("declared_balance_missing", "05"),
        ("budget_unreachable", "05"),
        ("max_amount_exceeded", "61"),
        ("max_total_exposure_exceeded", "61"),
        ("declared_balance_exceeded", "51"),
    ],
)
def test_response_codes(rule: Any, code: str) -> None:
    assert response_code(rule) == code


amounts = st.integers(1, 5_000)
steps = st.one_of(
    amounts,
    st.builds(
        policy,
        max_amount_minor=amounts,
        max_total_exposure_minor=st.integers(0, 20_000),
        budget_currency=st.sampled_from(["EUR", "USD"]),
    ),
    st.none(),
)


@given(st.lists(steps, max_size=60))
def test_random_histories_stay_within_the_budget(history: list[int | StandInPolicy | None]) -> None:
    """An amount is a request, a policy replaces the policy, and ``None`` ends the outage."""
    made: StandInPolicy = policy()
    outage: Outage | None = None
    exposure: dict[tuple[str, int], int] = {}
    for number, step in enumerate(history):
        if step is None:
            outage = None
        elif isinstance(step, StandInPolicy):
            made, outage = step, outage and under_policy(outage, step)
        else:
            asked = ask(number, amount_minor=step)
            outage, (granted,) = grant(made, outage, [asked], an_id(0xF000 + number), NOW_MS)
            assert outage is not None
            if granted.rule == "within_ceilings":
                key = (outage.id, outage.period)
                exposure[key] = exposure.get(key, 0) + step
                assert made.max_total_exposure_minor is not None
                assert exposure[key] <= made.max_total_exposure_minor
                assert exposure[key] == outage.used_minor == granted.used_minor
                assert (made.budget_currency, outage.currency) == ("EUR", "EUR")
