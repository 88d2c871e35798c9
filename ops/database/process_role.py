"""The database role of the processes: it reads and writes rows, but owns no table.

Migrations run as another role, which owns the tables (``STANCHION_MIGRATIONS_DATABASE_URL``), and then grant
the processes' role its rights. So a process cannot delete or rewrite append-only records. `stanchion up`
creates both roles in the embedded database; elsewhere the operator creates them.
"""

from __future__ import annotations

from typing import Final

import asyncpg

from actors.database_address import role_of
from ops.database.migrate import LOCK, MigrationError, one_line
from ops.database.operator_connection import connect_operator

APPEND_ONLY: Final = (
    "audit_log",
    "card_replacements",
    "decision_configurations",
    "journal_rows",
    "kyc_accesses",
    "ledger_entries",
)
"""Tables in which rows are inserted and read only."""
APPEND_ONLY_VIEWS: Final = ("journal",)
"""Views of such tables."""
NEVER_DELETED: Final = (
    "accounts",
    "card_usage",
    "cards",
    "clients",
    "declared_balances",
    "holds",
    "key_check",
    "outages",
    "programmes",
    "shards",
    "stand_ins",
    "tenants",
    "transaction_rows",
    "users",
)
"""Tables in which rows change but are never deleted."""
NEVER_DELETED_VIEWS: Final = ("transactions",)
"""Views of such tables."""
_RELATIONS: Final = """
    SELECT tablename FROM pg_tables WHERE schemaname = 'public'
    UNION ALL SELECT viewname FROM pg_views WHERE schemaname = 'public'
"""
READ_ONLY: Final = ("authentication_keys", "schema_floor", "schema_functions", "schema_migrations")


async def grant(owner_dsn: str, role: str) -> None:
    """Give ``role`` the processes' rights, and revoke every other right on tables. Does nothing when ``role``
    owns the tables. Raises MigrationError."""
    if not role or role == role_of(owner_dsn):
        return
    try:
        connection = await connect_operator(owner_dsn)
        try:
            async with connection.transaction():
                # Concurrent grants would change the same catalogue rows.
                await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
                await connection.execute(await _grants(connection, role))
        finally:
            await connection.close(timeout=10)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as failure:
        raise MigrationError(f"the role {role} cannot be granted its rights: {one_line(failure)}") from None


async def create(owner_dsn: str, role: str, password: str) -> None:
    """Create ``role`` with ``password`` and LOGIN as its only attribute, or change an existing role so. The
    owner is a superuser. Raises MigrationError."""
    try:
        connection = await connect_operator(owner_dsn)
        try:
            known = await connection.fetchval("SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", role)
            name, secret = await _quoted(connection, role), await _literal(connection, password)
            await connection.execute(
                f"{'ALTER' if known else 'CREATE'} ROLE {name} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE"
                f" NOREPLICATION NOBYPASSRLS PASSWORD {secret}"
            )
        finally:
            await connection.close(timeout=10)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as failure:
        raise MigrationError(f"the role {role} cannot be created: {one_line(failure)}") from None


async def _grants(connection: asyncpg.Connection[asyncpg.Record], role: str) -> str:
    name = await _quoted(connection, role)
    known = {row[0] for row in await connection.fetch(_RELATIONS)}
    statements = [
        f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {name}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {name}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {name}",
    ]
    for tables, rights in (
        (NEVER_DELETED + NEVER_DELETED_VIEWS, "DELETE"),
        (APPEND_ONLY + APPEND_ONLY_VIEWS, "UPDATE, DELETE"),
        (READ_ONLY, "INSERT, UPDATE, DELETE"),
    ):
        found = ", ".join(table for table in tables if table in known)
        if found:
            statements.append(f"REVOKE {rights} ON {found} FROM {name}")
    return ";\n".join(statements)


async def _quoted(connection: asyncpg.Connection[asyncpg.Record], name: str) -> str:
    return str(await connection.fetchval("SELECT quote_ident($1)", name))


async def _literal(connection: asyncpg.Connection[asyncpg.Record], text: str) -> str:
    return str(await connection.fetchval("SELECT quote_literal($1)", text))
