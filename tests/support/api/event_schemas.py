"""Validate events against the schemas of the catalogue; members that a schema does not list are errors."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import asyncpg
from jsonschema import Draft202012Validator, FormatChecker

from engine.webhooks.catalogue import CATALOGUE


def strict(schema: Any) -> Any:
    """``schema`` that allows no members beyond those listed."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if "properties" in schema else {}
    return {name: strict(value) for name, value in schema.items()} | closed


@cache
def validator(type_: str) -> Draft202012Validator:
    return Draft202012Validator(strict(CATALOGUE[type_].schema), format_checker=FormatChecker())


def faults(type_: str, data: Any) -> list[str]:
    """The schema errors in the data of an event."""
    if type_ not in CATALOGUE:
        return [f"{type_}: not in the catalogue"]
    return [f"{type_}{error.json_path}: {error.message}" for error in validator(type_).iter_errors(data)]


async def faults_of_all(pool: asyncpg.Pool[asyncpg.Record]) -> list[str]:
    """The schema errors in all stored events, sorted and without duplicates."""
    rows = await pool.fetch("SELECT type, data FROM events")
    return sorted({fault for row in rows for fault in faults(row["type"], json.loads(row["data"]))})
