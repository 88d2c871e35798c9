"""Fields of the row classes and arguments of the commit stand in the order that the database expects."""

from __future__ import annotations

import random
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest

from actors.journal import rows
from actors.journal.commit_arguments import CommitArguments
from actors.journal.memory_tables import MemoryTables, Table
from actors.journal.postgres import STATEMENTS
from engine.decision.compact_layout import Configuration
from tests.support.actors.journal.backends import PostgresBackend
from tests.support.actors.journal.history import commands
from tests.support.actors.journal.owner import Owner
from tests.support.engine.build import create_programme

PARAMETERS = (
    "SELECT p.name, t.typname AS type FROM pg_proc f,"
    " unnest(f.proargnames, f.proargtypes::oid[]) WITH ORDINALITY AS p (name, type, number)"
    " JOIN pg_type t ON t.oid = p.type WHERE f.proname = 'commit_batch_v3' ORDER BY p.number"
)
COLUMNS = (
    "SELECT attname AS name, atttypid::regtype::text AS type FROM pg_attribute"
    " WHERE attrelid = (SELECT typrelid FROM pg_type WHERE typname = $1) AND attnum > 0 ORDER BY attnum"
)
ROW_TYPES: dict[str, type[tuple[object, ...]]] = {
    "journal_row": rows.JournalRow,
    "usage_row": rows.UsageRow,
    "account_row": rows.AccountRow,
    "hold_row": rows.HoldRow,
    "transaction_row_v2": rows.TransactionRow,
    "tombstone_row": rows.TombstoneRow,
    "entry_row": rows.EntryRow,
    "event_row": rows.EventRow,
    "claim_row": rows.IdempotencyRow,
    "card_row": rows.CardRow,
    "declared_row": rows.DeclaredRow,
    "programme_row": rows.ProgrammeRow,
    "outage_row": rows.OutageRow,
    "stand_in_row": rows.StandInRow,
}
OF_FEW_COMMITS: dict[str, type[tuple[object, ...]]] = {
    "act_row": rows.ActRow,
    "replacement_row": rows.ReplacementRow,
    "rule_row": rows.RuleRow,
    "rule_match_row": rows.RuleMatchRow,
    "configuration_row": Configuration,
}
"""Rows that only some commits have: arguments of functions that are called beside the commit function."""
PYTHON_TYPES = {
    "bigint": int,
    "boolean": bool,
    "bytea": bytes,
    "integer": int,
    "smallint": int,
    "text": str,
    "timestamp with time zone": int,
    "uuid": str,
    "xid8": int,
}


def types_of(row: type[tuple[object, ...]]) -> dict[str, Any]:
    """The types of the fields, without ``None``."""
    return {
        name: get_args(hint)[0] if NoneType in get_args(hint) else hint
        for name, hint in get_type_hints(row).items()
    }


async def test_arguments_of_a_commit_are_the_parameters_of_the_function(postgres: PostgresBackend) -> None:
    parameters = await postgres.session.fetch(PARAMETERS)
    assert tuple(row["name"].removeprefix("_") for row in parameters) == CommitArguments._fields
    assert STATEMENTS["commit_batch"].count("$") == len(parameters)
    functions = (
        *("record_acts", "record_replacements", "record_rules", "record_rule_matches"),
        "record_configurations",
    )
    further = "".join(f", {name}(${number})" for number, name in enumerate(functions, len(parameters) + 1))
    rare = " ".join(STATEMENTS["commit_rare_rows"].split())
    assert rare.endswith(STATEMENTS["commit_batch"].rstrip() + further)


async def test_arguments_of_a_commit_have_the_row_classes_of_their_types(postgres: PostgresBackend) -> None:
    arguments = types_of(CommitArguments)
    found = {
        row["type"].removeprefix("_"): arguments[row["name"].removeprefix("_")]
        for row in await postgres.session.fetch(PARAMETERS)
        if "_row" in row["type"]
    }
    assert found == {name: list[row] for name, row in ROW_TYPES.items()}  # type: ignore[valid-type]


@pytest.mark.parametrize(("row_type", "row"), (ROW_TYPES | OF_FEW_COMMITS).items())
async def test_fields_of_a_row_are_the_columns_of_its_type(
    postgres: PostgresBackend, row_type: str, row: type[tuple[object, ...]]
) -> None:
    columns = await postgres.session.fetch(COLUMNS, row_type)
    assert list(types_of(row).items()) == [(each["name"], PYTHON_TYPES[each["type"]]) for each in columns]


def test_every_row_class_has_a_table_in_the_twin() -> None:
    tables = [each for each in vars(MemoryTables()).values() if isinstance(each, Table)]
    assert {table.columns for table in tables} == {
        tuple(row.__annotations__) for row in (ROW_TYPES | OF_FEW_COMMITS).values()
    }


def test_written_rows_have_the_fields_and_types_of_their_class() -> None:
    """``new_row`` does not check them."""
    owner = Owner(dict.fromkeys(range(256), 1))
    batch = vars(owner.decide(create_programme(), *commands(random.Random(1))))
    tables = [each.values() if isinstance(each, dict) else each for each in batch.values()]
    written = [row for table in tables for row in table if isinstance(row, tuple) and hasattr(row, "_fields")]
    assert {type(row) for row in written} >= {
        rows.JournalRow,
        rows.UsageRow,
        rows.AccountRow,
        rows.HoldRow,
        rows.TransactionRow,
        rows.EntryRow,
        rows.EventRow,
    }
    for row in written:
        hints = get_type_hints(type(row))
        assert len(row) == len(hints)
        for name, value in zip(hints, row, strict=True):
            assert type(value) in (get_args(hints[name]) or (hints[name],)), (type(row), name)
