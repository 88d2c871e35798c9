"""Attributes: how each is read from a message, and what counts as absent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.currencies import MerchantAmount
from engine.instant import DAY_MS
from engine.rules.attributes import (
    ATTRIBUTES,
    COMPARISONS,
    COUNTED,
    OPS,
    merchant_key,
    needs_authentication,
    normalized_name,
)
from engine.rules.observed import RulesInForce
from tests.support.engine.build import NOW_MS, authorize, inputs, wire
from tests.support.engine.increments import original_of

HOUR = 3_600_000
READ: list[tuple[str, dict[str, Any], dict[str, Any], Any]] = [
    ("amount", {"amount_minor": 1_234}, {}, 1_234),
    ("merchant_currency", {}, {}, "EUR"),
    ("merchant_currency", {"merchant_amount": MerchantAmount(100, "JPY")}, {}, "JPY"),
    ("merchant_country", {"merchant_country": "FR"}, {}, "FR"),
    ("mcc", {"mcc": "7995"}, {}, "7995"),
    ("channel", {"channel": "moto"}, {}, "moto"),
    ("entry_mode", {"entry_mode": "chip"}, {}, "chip"),
    ("entry_mode", {"entry_mode": None}, {}, None),
    ("acquirer_id", {"wire": wire(1, acquirer_id="12345")}, {}, "12345"),
    ("merchant_id", {"merchant_id": "M1"}, {}, "M1"),
    ("merchant_id", {}, {}, None),
    ("network", {}, {"network": "mastercard"}, "mastercard"),
    ("merchant_name", {"merchant_name": "CAFÉ  Müller, GmbH"}, {}, "cafe muller gmbh"),
    ("partial_allowed", {"partial_allowed": True}, {}, True),
    ("mit", {"mit": True}, {}, True),
    ("authenticated", {"authentication": "valid"}, {}, True),
    ("authenticated", {"authentication": "present"}, {}, True),
    ("authenticated", {"authentication": "invalid"}, {}, False),
    ("authenticated", {"authentication": "absent"}, {}, False),
    ("card_present", {"channel": "pos", "entry_mode": "chip"}, {}, True),
    ("card_present", {"channel": "atm", "entry_mode": None}, {}, True),
    ("card_present", {"channel": "pos", "entry_mode": "manual"}, {}, False),
    ("card_present", {"channel": "ecommerce", "entry_mode": "ecommerce"}, {}, False),
    ("cvv2_matched", {"cvv2": "match"}, {}, True),
    ("cvv2_matched", {"cvv2": "absent"}, {}, False),
    ("risk_score", {}, {}, 35),
    ("card_age_days", {}, {"rules_in_force": RulesInForce((), (), (), NOW_MS - 3 * DAY_MS + 1)}, 2),
    ("card_age_days", {}, {"rules_in_force": RulesInForce((), (), (), NOW_MS + 5)}, 0),
    ("card_age_days", {}, {}, 0),
    ("local_time", {}, {"now_ms": NOW_MS + 5 * 60_000}, 10 * 60 + 5),
    ("local_time", {}, {"timezone": "America/New_York"}, 5 * 60),
    ("weekday", {}, {}, "saturday"),
    ("weekday", {}, {"timezone": "Pacific/Kiritimati", "now_ms": NOW_MS + HOUR}, "sunday"),
]


@pytest.mark.parametrize(("name", "message", "state", "expected"), READ)
def test_reading(name: str, message: dict[str, Any], state: dict[str, Any], expected: Any) -> None:
    read = ATTRIBUTES[name].read
    assert read is not None
    assert read(authorize(1, **message), inputs(**state), 35) == expected


def test_every_attribute_of_a_message_is_in_the_table() -> None:
    assert {name for name, *_ in READ} == ATTRIBUTES.keys() - {"velocity", "first_at_merchant"}
    assert set(COUNTED) <= ATTRIBUTES.keys()


def test_operators_follow_from_the_type() -> None:
    assert ATTRIBUTES["amount"].ops == COMPARISONS
    assert ATTRIBUTES["mcc"].ops == ("eq", "ne", "in", "not_in")
    assert {each.type for each in ATTRIBUTES.values()} == OPS.keys()


def test_amount_of_an_increment_includes_the_authorization_that_it_raises() -> None:
    read = ATTRIBUTES["amount"].read
    assert read is not None
    assert read(authorize(2, amount_minor=500), inputs(original=original_of(1_000)), 0) == 1_500


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"channel": "ecommerce"}, True),
        ({"channel": "ecommerce", "authentication": "valid"}, False),
        ({"channel": "ecommerce", "mit": True}, False),
        ({"channel": "pos"}, False),
    ],
)
def test_only_purchases_by_the_cardholder_can_be_authenticated(
    message: dict[str, Any], expected: bool
) -> None:
    assert needs_authentication(authorize(1, **message), inputs()) is expected
    raising = msgspec.structs.replace(inputs(), original=original_of(1_000))
    assert needs_authentication(authorize(1, **message), raising) is False


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("AMZN*Mktp DE", "amzn mktp de"),
        ("  ÅNGSTRÖM  ", "angstrom"),
        ("Straße", "strasse"),
        ("***", ""),
        ("ＡＢＣ", "abc"),
    ],
)
def test_names_are_compared_without_case_accents_and_punctuation(name: str, expected: str) -> None:
    assert normalized_name(name) == expected


def test_merchants_differ_by_id_or_else_by_name() -> None:
    assert merchant_key("M1", "Shop") == "M1"
    assert merchant_key(None, "Shop!") == merchant_key(None, "SHOP") != merchant_key(None, "Shop 2")
