"""The plan of the demo's day: repeatable, inside opening hours, with all that the pages want to show."""

from __future__ import annotations

from collections import Counter

from engine.currencies import parse_money
from ops.demo.day_plan import (
    BURST_PURCHASES,
    BURST_SHOP,
    CURRENCY_OF,
    HOLDERS,
    HOURS,
    MERCHANTS,
    PURCHASES,
    Merchant,
    plan,
)


def test_same_seed_gives_the_same_day() -> None:
    assert plan(1) == plan(1)
    assert plan(1) != plan(2)


def test_day_is_in_order_and_busier_at_noon_than_at_night() -> None:
    planned = plan(7)
    assert len(planned) == PURCHASES + BURST_PURCHASES
    hours = [each.hour for each in planned]
    assert hours == sorted(hours)
    assert 0 <= hours[0] <= hours[-1] < HOURS
    counted = Counter(int(hour) for hour in hours)
    assert sum(counted[hour] for hour in (11, 12, 13)) > 4 * sum(counted[hour] for hour in (0, 1, 2))


def test_merchants_are_open_and_serve_the_pool() -> None:
    known = {each.name: each for each in MERCHANTS}
    for each in plan(7):
        merchant = known.get(each.merchant.name)
        if merchant is not None:
            assert merchant.hours[0] <= each.hour < merchant.hours[1]
            assert HOLDERS[each.holder].pool in merchant.pools


def test_spends_are_valid_for_the_api_in_their_currencies() -> None:
    planned = plan(7)
    foreign = Counter[str]()
    for each in planned:
        spend = each.fields("card")
        billing = CURRENCY_OF[HOLDERS[each.holder].pool]
        assert spend["amount"]["currency"] == billing
        assert (parse_money(spend["amount"]["amount"], billing) or 0) > 0
        assert len(spend.get("merchant_id", "")) <= 15
        merchant = spend.get("merchant_amount")
        if merchant is not None:
            assert merchant["currency"] != billing
            assert (parse_money(merchant["amount"], merchant["currency"]) or 0) > 0
            foreign[merchant["currency"]] += 1
    assert {"USD", "GBP", "JPY", "CHF", "EUR"} <= foreign.keys()


def test_day_has_every_kind_of_purchase() -> None:
    planned = plan(7)
    assert {each.follow_up for each in planned} == {"none", "increment", "reverse", "present_less", "refund"}
    assert {HOLDERS[each.holder].pool for each in planned} == set(CURRENCY_OF)
    burst = [each for each in planned if each.merchant_id == BURST_SHOP]
    assert len({each.holder for each in burst}) == 1
    assert HOLDERS[burst[0].holder].pool == "everyday"


def test_merchant_ids_fit_the_wire() -> None:
    ids = [each.id for each in MERCHANTS]
    assert len(set(ids)) == len(ids)
    assert all(each.isalnum() and len(each) <= 15 for each in ids)
    assert Merchant("Corner Bakery", "5462", "IE", "EUR", 2, 14).id == "CORNERBAKERY"
