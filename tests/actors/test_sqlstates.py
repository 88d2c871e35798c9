"""Every class of SQLSTATE has a verdict."""

from __future__ import annotations

import asyncpg
import pytest

from actors.sqlstates import CLASSES, UNAVAILABLE, Verdict, keeps_connection, unavailable, verdict

BATCH, SCHEMA, SERVER = Verdict.BATCH, Verdict.SCHEMA, Verdict.SERVER

CASES = [
    ("22003", BATCH, "numeric_value_out_of_range"),
    ("22P02", BATCH, "invalid_text_representation"),
    ("23505", BATCH, "unique_violation"),
    ("23514", BATCH, "check_violation"),
    ("21000", BATCH, "cardinality_violation"),
    ("44000", BATCH, "with_check_option_violation"),
    ("40002", BATCH, "transaction_integrity_constraint_violation"),
    ("54000", BATCH, "program_limit_exceeded: an index row too large"),
    ("P0001", BATCH, "raise_exception: append-only"),
    ("XX001", BATCH, "data_corrupted"),
    ("ZZ999", BATCH, "unknown, of an extension"),
    ("42P01", SCHEMA, "undefined_table"),
    ("42883", SCHEMA, "undefined_function"),
    ("42501", SCHEMA, "insufficient_privilege"),
    ("3F000", SCHEMA, "invalid_schema_name"),
    ("25006", SERVER, "read_only_sql_transaction"),
    ("25P02", SERVER, "in_failed_sql_transaction"),
    ("25P03", SERVER, "idle_in_transaction_session_timeout"),
    ("08006", SERVER, "connection_failure"),
    ("0A000", SERVER, "feature_not_supported: a cached plan whose result changed"),
    ("26000", SERVER, "invalid_sql_statement_name"),
    ("28P01", SERVER, "invalid_password"),
    ("3D000", SERVER, "invalid_catalog_name"),
    ("40001", SERVER, "serialization_failure"),
    ("40003", SERVER, "statement_completion_unknown"),
    ("40P01", SERVER, "deadlock_detected"),
    ("53100", SERVER, "disk_full"),
    ("53200", SERVER, "out_of_memory"),
    ("53300", SERVER, "too_many_connections"),
    ("55P03", SERVER, "lock_not_available"),
    ("57014", SERVER, "query_canceled"),
    ("57P01", SERVER, "admin_shutdown"),
    ("57P03", SERVER, "cannot_connect_now"),
    ("57P05", SERVER, "idle_session_timeout"),
    ("58030", SERVER, "io_error"),
    ("72000", SERVER, "snapshot_too_old"),
]


@pytest.mark.parametrize(("sqlstate", "expected", "meaning"), CASES)
def test_verdict_of_an_sqlstate(sqlstate: str, expected: Verdict, meaning: str) -> None:
    assert verdict(sqlstate) is expected, meaning


@pytest.mark.parametrize(("sqlstate", "expected", "meaning"), CASES)
def test_only_faults_of_rows_keep_the_connection(sqlstate: str, expected: Verdict, meaning: str) -> None:
    failure = asyncpg.PostgresError.new({"C": sqlstate, "M": meaning})
    assert unavailable(failure) is (expected is SERVER)
    assert keeps_connection(failure) is (expected is BATCH)


def test_every_error_class_of_the_driver_has_a_verdict() -> None:
    known = (each for each in vars(asyncpg.exceptions).values() if isinstance(each, type))
    codes = {str(getattr(each, "sqlstate", None) or "")[:2] for each in known}
    # Warnings and "no data" are not errors.
    assert codes - {"", "00", "01", "02"} <= CLASSES.keys()


def test_unavailable_lists_the_exceptions_of_an_absent_server() -> None:
    assert {asyncpg.ReadOnlySQLTransactionError, asyncpg.DeadlockDetectedError, OSError} <= set(UNAVAILABLE)
    assert not issubclass(asyncpg.UniqueViolationError, UNAVAILABLE)
    assert unavailable(asyncpg.InterfaceError("closed"))
    assert unavailable(asyncpg.TargetServerAttributeNotMatched("none"))
    assert not unavailable(KeyError())
