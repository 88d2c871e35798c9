"""Compiled conditions: a table of operators, and equality with a naive interpreter."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.rules.attributes import WEEKDAYS, normalized_name
from engine.rules.compile import compile_condition, compile_rule
from engine.rules.model import Condition
from tests.support.engine.rules import condition, rule, velocity

OPERATORS: list[tuple[str, Any, Any, list[Any], list[Any]]] = [
    # attribute, op, value, values that hold, values that do not
    ("amount", "eq", 500, [500], [499, 501]),
    ("amount", "lt", 500, [499], [500]),
    ("amount", "lte", 500, [499, 500], [501]),
    ("amount", "gt", 500, [501], [500]),
    ("amount", "gte", 500, [500, 501], [499]),
    ("amount", "between", [100, 500], [100, 300, 500], [99, 501]),
    ("mcc", "eq", "5411", ["5411"], ["5412", None]),
    ("mcc", "ne", "5411", ["5412", None], ["5411"]),
    ("mcc", "in", ["5411", "3000-3350"], ["5411", "3000", "3123", "3350"], ["2999", "3351", None]),
    ("mcc", "eq", "0700-0799", ["0742"], ["0800"]),
    ("mcc", "not_in", ["5411", "3000-3350"], ["2999", None], ["5411", "3350"]),
    ("merchant_id", "in", ["A-1", "B"], ["A-1", "B"], ["A", None]),
    ("merchant_id", "eq", "0010-0012", ["0010-0012"], ["0011"]),
    ("entry_mode", "not_in", ["chip"], ["manual", None], ["chip"]),
    ("merchant_name", "eq", "Café!", ["cafe"], ["cafe x"]),
    ("merchant_name", "contains", "UBER", ["uber trip", "my uber"], ["ube"]),
    ("merchant_name", "starts_with", "AMZN*", ["amzn mktp"], ["my amzn"]),
    ("merchant_name", "in", ["Shop A", "SHOP-B"], ["shop a", "shop b"], ["shop c"]),
    ("mit", "eq", True, [True], [False]),
    ("mit", "eq", False, [False], [True]),
    ("risk_score", "gte", 50, [50, 100], [49]),
    ("card_age_days", "between", [0, 7], [0, 7], [8]),
    ("local_time", "between", ["09:00", "17:30"], [540, 1_049], [539, 1_050]),
    ("local_time", "between", ["22:00", "06:00"], [1_320, 0, 359], [360, 1_319]),
    ("weekday", "in", ["saturday", "sunday"], ["saturday"], ["monday"]),
    ("weekday", "between", ["friday", "monday"], ["friday", "sunday", "monday"], ["tuesday", "thursday"]),
    ("weekday", "between", ["monday", "wednesday"], ["monday", "tuesday"], ["thursday", "sunday"]),
]


@pytest.mark.parametrize(("attribute", "op", "value", "holding", "failing"), OPERATORS)
def test_operators(attribute: str, op: Any, value: Any, holding: list[Any], failing: list[Any]) -> None:
    compiled = compile_condition(condition(attribute, op, value))
    assert [seen for seen in holding if not compiled.holds(seen)] == []
    assert [seen for seen in failing if compiled.holds(seen)] == []


@pytest.mark.parametrize(
    ("made", "text", "value", "shown"),
    [
        (condition("amount", "gt", 5_000), "amount gt 50.00", 6_001, "60.01"),
        (condition("mit", "eq", True), "mit eq true", False, "false"),
        (condition("mcc", "in", list("abcde")), "mcc in a, b, c and 2 more", "x", "x"),
        (
            condition("local_time", "between", ["22:00", "06:00"]),
            "local_time between 22:00, 06:00",
            61,
            "01:01",
        ),
        (velocity("count", "PT10M", "gt", 3), "velocity count PT10M gt 3", 4, 4),
        (velocity("amount", "day", "gt", 300), "velocity amount day gt 3.00", 400, "4.00"),
    ],
)
def test_texts_of_the_trace(made: Condition, text: str, value: Any, shown: Any) -> None:
    compiled = compile_condition(made)
    assert compiled.text == text
    assert (value if compiled.show is None else compiled.show(value)) == shown


def test_a_rule_that_requires_authentication_has_one_more_condition() -> None:
    compiled = compile_rule(rule(1, action="require_authentication"))
    assert compiled.decline_reason == "authentication_required"
    assert [each.text for each in compiled.conditions] == ["mcc in 7995", "unauthenticated_ecommerce eq true"]
    assert compile_rule(rule(1)).decline_reason == "rule_declined"
    assert compile_rule(rule(1)) is compile_rule(rule(1))


# --- a naive interpreter -----------------------------------------------------------------------------------


def interpreted(made: Condition, seen: Any) -> bool:
    """``made`` by the words of ``ops/docs/RULES.md``, without the compiler's parts."""
    values = made.value if isinstance(made.value, tuple) else (made.value,)
    if made.attribute == "mcc":
        hit = any(
            seen is not None and int(first) <= int(seen) <= int(last or first)
            for first, _, last in (str(value).partition("-") for value in values)
        )
        return hit if made.op in ("eq", "in") else not hit
    if made.attribute == "merchant_name":
        wanted = [normalized_name(str(value)) for value in values]
        tests = {
            "eq": any(seen == each for each in wanted),
            "in": any(seen == each for each in wanted),
            "contains": any(each in seen for each in wanted),
            "starts_with": any(seen[: len(each)] == each for each in wanted),
        }
        return tests[made.op]
    if made.attribute == "weekday":
        if made.op == "in":
            return bool(seen in values)
        day = WEEKDAYS.index(str(values[0]))
        while WEEKDAYS[day % 7] != values[1]:
            if WEEKDAYS[day % 7] == seen:
                return True
            day += 1
        return bool(seen == values[1])
    if made.attribute == "local_time":
        start, end = (int(str(value)[:2]) * 60 + int(str(value)[3:]) for value in values)
        minutes = range(start, end if start <= end else end + 1_440)
        return bool(seen in minutes or seen + 1_440 in minutes)
    numbers = [int(value) for value in values]
    return {
        "eq": seen == numbers[0],
        "lt": seen < numbers[0],
        "lte": not seen > numbers[0],
        "gt": seen > numbers[0],
        "gte": not seen < numbers[0],
        "between": numbers[0] <= seen <= numbers[-1],
    }[made.op]


code = st.integers(0, 60).map(lambda number: f"{number:04d}")
codes = st.one_of(code, st.tuples(code, code).map(lambda pair: f"{min(pair)}-{max(pair)}"))
name = st.text("aÁb-C ", max_size=4)
minute = st.integers(0, 1_439).map(lambda each: f"{each // 60:02d}:{each % 60:02d}")
weekday = st.sampled_from(WEEKDAYS)
number = st.integers(0, 30)
CASES: st.SearchStrategy[tuple[Condition, Any]] = st.one_of(
    st.tuples(
        st.one_of(
            st.builds(condition, st.just("mcc"), st.sampled_from(("eq", "ne")), codes),
            st.builds(
                condition, st.just("mcc"), st.sampled_from(("in", "not_in")), st.lists(codes, min_size=1)
            ),
        ),
        code,
    ),
    st.tuples(
        st.one_of(
            st.builds(
                condition, st.just("merchant_name"), st.sampled_from(("eq", "contains", "starts_with")), name
            ),
            st.builds(condition, st.just("merchant_name"), st.just("in"), st.lists(name, min_size=1)),
        ),
        name.map(normalized_name),
    ),
    st.tuples(
        st.one_of(
            st.builds(condition, st.just("weekday"), st.just("in"), st.lists(weekday, min_size=1)),
            st.builds(
                condition, st.just("weekday"), st.just("between"), st.lists(weekday, min_size=2, max_size=2)
            ),
        ),
        weekday,
    ),
    st.tuples(
        st.builds(
            condition, st.just("local_time"), st.just("between"), st.lists(minute, min_size=2, max_size=2)
        ),
        st.integers(0, 1_439),
    ),
    st.tuples(
        st.one_of(
            st.builds(
                condition,
                st.sampled_from(("amount", "risk_score", "card_age_days")),
                st.sampled_from(("eq", "lt", "lte", "gt", "gte")),
                number,
            ),
            st.builds(
                condition, st.just("amount"), st.just("between"), st.tuples(number, number).map(sorted)
            ),
        ),
        number,
    ),
)


@given(CASES)
def test_compiled_conditions_equal_a_naive_interpreter(case: tuple[Condition, Any]) -> None:
    made, seen = case
    assert bool(compile_condition(made).holds(seen)) == interpreted(made, seen)
