"""Velocity windows: exact up to their limit, equal to a naive recount, and never too low beyond it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.instant import DAY_MS
from engine.limits import (
    VELOCITY_BUCKET_ENTRIES,
    VELOCITY_BUCKETS_MAX,
    VELOCITY_EXACT_MAX,
)
from engine.rules import velocity as velocities
from engine.rules.attributes import merchant_key
from engine.rules.model import Condition, Velocity
from engine.rules.observed import Observed
from engine.rules.velocity import Change, Counted, History, Window, filter_of
from engine.rules.windows import duration_ms, period_of
from tests.support.engine.build import NOW_MS
from tests.support.engine.rules import condition

MINUTE = 60_000
MEASURES = ("count", "amount", "declines", "distinct_merchants", "distinct_countries")


def bought(number: int, at_ms: int = NOW_MS, **parts: Any) -> Counted:
    """A purchase of 1.00 that counts."""
    made = Counted(
        key=f"a{number}",
        at_ms=at_ms,
        amount_minor=100,
        count=1,
        requested_minor=100,
        mcc="5411",
        merchant_country="IE",
        merchant_name="Shop",
    )
    return msgspec.structs.replace(made, **parts)


def observed(window: Window, now_ms: int = NOW_MS, **parts: Any) -> Observed:
    return window.observe(now_ms, bought(0, now_ms, **parts))


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("count", Observed(2)),
        ("amount", Observed(350)),
        ("declines", Observed(1)),
        ("distinct_merchants", Observed(2, seen=True)),
        ("distinct_countries", Observed(1, seen=True)),
    ],
)
def test_measures(measure: Any, expected: Observed) -> None:
    window = Window(Velocity(measure, "PT10M"), "UTC")
    window.add(bought(1))
    window.add(bought(2, merchant_id="M1", amount_minor=250))
    window.add(bought(3, amount_minor=0, count=0, declined=True, merchant_country="FR"))
    assert observed(window) == expected


def test_a_trailing_window_excludes_its_first_instant() -> None:
    window = Window(Velocity("count", "PT10M"), "UTC")
    window.add(bought(1))
    assert observed(window, NOW_MS + 10 * MINUTE - 1) == Observed(1)
    assert observed(window, NOW_MS + 10 * MINUTE) == Observed(0)


def test_a_calendar_window_begins_again_at_midnight_of_its_zone() -> None:
    late = NOW_MS + 14 * 60 * MINUTE - 1
    for zone, expected in (("UTC", 1), ("Europe/Berlin", 0)):
        window = Window(Velocity("count", "day"), zone)
        window.add(bought(1))
        window.add(bought(2, NOW_MS - DAY_MS))
        assert observed(window, late) == Observed(expected)
        assert observed(window, late + 1) == Observed(0)


def test_a_purchase_of_a_later_period_ends_the_earlier_one() -> None:
    window = Window(Velocity("count", "day"), "UTC")
    history = [bought(1), bought(2, NOW_MS + DAY_MS)]
    for counted in history:
        window.add(counted)
    assert observed(window, NOW_MS + DAY_MS) == Observed(1)
    assert [each.windows for each in history] == [0, 1]


@pytest.mark.parametrize(
    ("where", "matches"),
    [
        (condition("mcc", "in", ["5000-5999"]), True),
        (condition("mcc", "ne", "5411"), False),
        (condition("merchant_id", "eq", "M1"), False),
        (condition("merchant_country", "eq", "IE"), True),
        (condition("channel", "eq", "pos"), False),
        (condition("entry_mode", "not_in", ["chip"]), True),
        (condition("amount", "gte", 100), True),
        (condition("amount", "gt", 100), False),
    ],
)
def test_filters(where: Condition, matches: bool) -> None:
    window = Window(Velocity("count", "lifetime", (where,)), "UTC")
    window.add(bought(1))
    assert observed(window) == Observed(int(matches))
    assert filter_of(()) is None


def test_purchases_are_kept_in_the_order_of_their_times() -> None:
    window = Window(Velocity("count", "PT10M"), "UTC")
    for number, minutes in enumerate((5, 1, 3)):
        window.add(bought(number, NOW_MS + minutes * MINUTE))
    values = [observed(window, NOW_MS + minutes * MINUTE).value for minutes in (10, 11, 13, 15)]
    assert values == [3, 2, 1, 0]


# --- many purchases ----------------------------------------------------------------------------------------


def test_a_window_is_exact_up_to_its_limit_and_bounded_beyond() -> None:
    window = Window(Velocity("count", "P1D"), "UTC")
    total = 3 * VELOCITY_EXACT_MAX
    for number in range(total):
        window.add(bought(number, NOW_MS + number * 1_000))
    assert len(window) <= VELOCITY_EXACT_MAX + VELOCITY_BUCKET_ENTRIES + VELOCITY_BUCKETS_MAX
    for kept in (VELOCITY_EXACT_MAX, 500, 1):
        now_ms = NOW_MS + DAY_MS + (total - kept) * 1_000 - 1
        assert observed(window, now_ms) == Observed(kept)


@pytest.mark.parametrize("measure", MEASURES)
def test_buckets_are_merged_without_loss(measure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an end of the window, buckets are exact."""
    small_limits(monkeypatch, keys=1_000)
    window = Window(Velocity(measure, "lifetime"), "UTC")
    purchases = [
        bought(
            number,
            NOW_MS + number,
            merchant_id=f"M{number % 7}",
            merchant_country=("IE", "FR")[number % 2],
            declined=number % 3 == 0,
        )
        for number in range(100)
    ]
    for counted in purchases:
        window.add(counted)
    expected = {"count": 100, "amount": 10_000, "declines": 34, "distinct_merchants": 7}
    assert observed(window, merchant_id="M3").value == expected.get(measure, 2)
    assert len(window) <= 4 + 2 + 3


def small_limits(monkeypatch: pytest.MonkeyPatch, keys: int = 3) -> None:
    monkeypatch.setattr(velocities, "VELOCITY_EXACT_MAX", 4)
    monkeypatch.setattr(velocities, "VELOCITY_BUCKET_ENTRIES", 2)
    monkeypatch.setattr(velocities, "VELOCITY_BUCKETS_MAX", 3)
    monkeypatch.setattr(velocities, "VELOCITY_KEYS_MAX", keys)


WINDOWS = ("PT10S", "PT10M", "P1D", "day", "week", "month", "year", "lifetime")
purchase = st.fixed_dictionaries(
    {
        "after_ms": st.integers(0, 8 * 60 * MINUTE),
        "amount_minor": st.integers(0, 500),
        "count": st.integers(0, 1),
        "declined": st.booleans(),
        "merchant_id": st.sampled_from((None, "M1", "M2", "M3", "M4")),
        "merchant_country": st.sampled_from(("IE", "FR", "US", "JP", "BR")),
        "mcc": st.sampled_from(("5411", "7995")),
    }
)


def recount(velocity: Velocity, zone: str, now_ms: int, past: list[Counted]) -> tuple[int, set[str]]:
    """The value and the merchants or countries of a window, counted anew."""
    length_ms = duration_ms(velocity.window)
    if length_ms is not None:
        inside = [each for each in past if now_ms - length_ms < each.at_ms]
    else:
        period = period_of(velocity.window, now_ms, zone)
        inside = [each for each in past if period_of(velocity.window, each.at_ms, zone) == period]
    inside = [each for each in inside if not velocity.where or each.mcc == velocity.where[0].value]
    counting = [each for each in inside if each.amount_minor or each.count]
    countries = velocity.measure == "distinct_countries"
    keys = {
        each.merchant_country if countries else merchant_key(each.merchant_id, each.merchant_name)
        for each in counting
    }
    values = {
        "count": sum(each.count for each in inside),
        "amount": sum(each.amount_minor for each in inside),
        "declines": sum(each.declined for each in inside),
    }
    return values.get(velocity.measure, len(keys)), keys


velocity_of = st.builds(
    Velocity,
    st.sampled_from(MEASURES),
    st.sampled_from(WINDOWS),
    st.sampled_from(((), (condition("mcc", "eq", "7995"),))),
)


@settings(deadline=None)
@given(velocity_of, st.lists(purchase, max_size=30), st.sampled_from(("UTC", "Asia/Tokyo")))
def test_windows_equal_a_naive_recount(
    velocity: Velocity, purchases: list[dict[str, Any]], zone: str
) -> None:
    window, now_ms = Window(velocity, zone), NOW_MS
    past: list[Counted] = []
    for number, parts in enumerate(purchases):
        now_ms += parts["after_ms"]
        counted = made(number, now_ms, parts)
        value, keys = recount(velocity, zone, now_ms, past)
        seen = window.observe(now_ms, counted)
        assert seen.value == value
        if velocity.measure == "distinct_merchants":
            assert seen.seen == (merchant_key(counted.merchant_id, counted.merchant_name) in keys)
        window.add(counted)
        past.append(counted)


def made(number: int, at_ms: int, parts: dict[str, Any]) -> Counted:
    return bought(number, at_ms, **{name: each for name, each in parts.items() if name != "after_ms"})


@settings(deadline=None)
@given(velocity_of, st.lists(purchase, max_size=60))
def test_buckets_never_count_too_little(velocity: Velocity, purchases: list[dict[str, Any]]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        small_limits(monkeypatch)
        window, now_ms = Window(velocity, "UTC"), NOW_MS
        past: list[Counted] = []
        for number, parts in enumerate(purchases):
            now_ms += parts["after_ms"]
            counted = made(number, now_ms, parts)
            value, keys = recount(velocity, "UTC", now_ms, past)
            seen = window.observe(now_ms, counted)
            country = velocity.measure == "distinct_countries"
            key = counted.merchant_country if country else merchant_key(counted.merchant_id, "Shop")
            # What counts with the purchase being decided.
            distinct = velocity.measure.startswith("distinct")
            assert seen.value + (distinct and not seen.seen) >= value + (distinct and key not in keys)
            assert len(window) <= 4 + 2 + 3
            window.add(counted)
            past.append(counted)


# --- histories ---------------------------------------------------------------------------------------------

COUNT, AMOUNT = Velocity("count", "PT10M"), Velocity("amount", "day")
MERCHANTS = Velocity("distinct_merchants", "lifetime")
ALL = (COUNT, AMOUNT, MERCHANTS)


def values_of(history: History, now_ms: int = NOW_MS) -> list[int]:
    return [history.observe(each, "UTC", now_ms, bought(0, now_ms)).value for each in ALL]


def loaded(*past: Counted) -> History:
    history = History()
    history.begin_loading()
    history.load(ALL, "UTC", past)
    return history


def test_a_history_lacks_the_windows_that_were_not_built() -> None:
    history = History()
    assert history.lacks((COUNT,), "UTC")
    history = loaded()
    assert not history.lacks((COUNT, AMOUNT), "UTC")
    assert history.lacks((COUNT,), "Europe/Dublin")
    assert history.lacks((Velocity("count", "PT11M"),), "UTC")


def test_changes_raise_lower_and_end_a_purchase() -> None:
    history = loaded(bought(1, NOW_MS - 1))
    assert values_of(history) == [1, 100, 1]
    history.apply((Change("a2", 200, 1, opened=bought(2, amount_minor=200, merchant_id="M2")),))
    assert values_of(history) == [2, 300, 2]
    history.apply((Change("a2", 50, 1),))
    assert values_of(history) == [2, 150, 2]
    history.apply((Change("a2", 0, 0),))
    assert values_of(history) == [1, 100, 1]
    history.apply((Change("a2", 70, 1), Change("a2", 70, 1), Change("unknown", 9, 1)))
    assert values_of(history) == [2, 170, 2]


def test_a_purchase_that_has_left_all_windows_is_not_changed() -> None:
    history = History()
    history.load((COUNT,), "UTC", [bought(1)])
    later = NOW_MS + 10 * MINUTE
    assert history.observe(COUNT, "UTC", later, bought(0, later)) == Observed(0)
    history.apply((Change("a1", 500, 1),))
    history.apply((Change("a1", 500, 1),))
    assert history.observe(COUNT, "UTC", later, bought(0, later)) == Observed(0)


def test_changes_during_a_read_are_applied_once_to_its_result() -> None:
    history = loaded()
    history.begin_loading()
    opened = bought(2, amount_minor=200)
    history.apply((Change("a2", 200, 1, opened=opened),))
    history.apply((Change("a1", 60, 1),))
    assert values_of(history) == [1, 200, 1]
    history.load(ALL, "UTC", [bought(1), bought(2, amount_minor=200)])
    assert values_of(history) == [2, 260, 1]


def test_memory_of_a_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    small_limits(monkeypatch)
    history = History()
    history.load((COUNT,), "UTC", [])
    for number in range(100):
        change = Change(f"a{number}", 100, 1, opened=bought(number, NOW_MS + number * MINUTE))
        history.apply((change,))
        history.observe(COUNT, "UTC", NOW_MS + number * MINUTE, bought(0))
    assert len(history._known) <= 2 * 4 + 1
