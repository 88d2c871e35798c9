"""The catalogue: complete, well-formed, and the same as what the code tells."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from engine.webhooks.catalogue import CATALOGUE
from engine.webhooks.schemas import choice, or_null

ROOT = Path(__file__).parents[3]
# Spec 6.3, and those that the contract adds.
NAMED = {
    "card.created",
    "cardholder.updated",
    "card_product.created",
    "authorization.decided",
    "ledger.hold.captured",
    "ledger.hold.released",
    "ledger.entry.posted",
    "authorization.posting_instruction.issued",
    "clearing.posting_instruction.created",
    "authorization.stip_outage.finished",
    "transaction.cleared",
    "clearing.exception.raised",
    "ledger.hold.created",
    "card.updated",
    "programme.created",
    "programme.updated",
    "programme.suspended",
    "programme.closed",
    "programme.stip_policy.updated",
}
_TYPE = re.compile(r'"((?:authorization|card|card_product|cardholder|clearing|ledger|programme|transaction)'
                   r'\.[a-z_.]+)"')  # fmt: skip


def test_every_type_of_the_specification_is_there() -> None:
    assert CATALOGUE.keys() >= NAMED


@pytest.mark.parametrize("type_", CATALOGUE)
def test_a_schema_is_well_formed_and_lists_what_it_requires(type_: str) -> None:
    schema = CATALOGUE[type_].schema
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    for described in objects(schema):
        assert set(described["required"]) <= set(described["properties"])


def objects(schema: Any) -> list[dict[str, Any]]:
    """Every object that ``schema`` describes, at any depth."""
    if isinstance(schema, list):
        return [found for item in schema for found in objects(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema] if "properties" in schema else []
    return own + [found for value in schema.values() for found in objects(value)]


def test_whatever_the_code_tells_is_in_the_catalogue_and_the_reverse() -> None:
    told = {
        type_
        for folder in ("engine", "actors", "api")
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "catalogue.py"
        for type_ in _TYPE.findall(path.read_text("utf-8"))
    }
    live = {entry.type for entry in CATALOGUE.values() if entry.status == "live"}
    assert live <= told, "a live type has a producer"
    assert not told & (CATALOGUE.keys() - live), "a planned type has none"


def test_null_is_one_more_choice() -> None:
    schema = or_null(choice("a", "b"))
    validator = Draft202012Validator(schema)
    assert [validator.is_valid(value) for value in ("a", None, "c", 1)] == [True, True, False, False]
