"""The catalogue is complete and well-formed, and lists exactly the event types that the code publishes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from engine.webhooks.catalogue import CATALOGUE
from engine.webhooks.schemas import choice, or_null

ROOT = Path(__file__).parents[3]
# Event types that customers rely on.
REQUIRED = {
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
    "authorization_rule.created",
    "authorization_rule.updated",
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
_TYPE = re.compile(r'"((?:authorization|authorization_rule|card|card_product|cardholder|clearing|ledger'
                   r'|programme|transaction|webhook_endpoint)\.[a-z_.]+)"')  # fmt: skip


def test_catalogue_holds_every_required_type() -> None:
    assert CATALOGUE.keys() >= REQUIRED


@pytest.mark.parametrize("type_", CATALOGUE)
def test_schema_is_well_formed_and_describes_its_required_members(type_: str) -> None:
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


def test_live_types_are_published_and_planned_types_are_not() -> None:
    published = {
        type_
        for folder in ("engine", "actors", "api")
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "catalogue.py"
        for type_ in _TYPE.findall(path.read_text("utf-8"))
    }
    live = {entry.type for entry in CATALOGUE.values() if entry.status == "live"}
    assert live <= published, "a live type has a producer"
    assert not published & (CATALOGUE.keys() - live), "a planned type has no producer"


def test_or_null_adds_null_to_the_choices() -> None:
    schema = or_null(choice("a", "b"))
    validator = Draft202012Validator(schema)
    assert [validator.is_valid(value) for value in ("a", None, "c", 1)] == [True, True, False, False]
