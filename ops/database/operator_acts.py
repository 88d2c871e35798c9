"""Rows of the audit log for acts on the command line. A command writes its row in the transaction of its act;
one that takes several transactions writes a row when it begins and one when it ends."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import asyncpg
import msgspec
from asyncpg.pool import PoolConnectionProxy

from actors.ids import new_id
from actors.journal.audit_log import insert
from actors.journal.rows import ActRow
from actors.log import ACT, append
from actors.settings import Settings
from engine.acts import OPERATOR_ACTS
from ops.database.operator_connection import connect_operator

Connection: TypeAlias = "asyncpg.Connection[Any] | PoolConnectionProxy[Any]"

INSTALLATION: Final = "installation"
NAME_CHARS_MAX: Final = 100
LOGGED_IN: Final[ContextVar[tuple[Path, str] | None]] = ContextVar("logged_in", default=None)
"""State folder of the installation on which this command works, and the name of this process: the log there
gets a line for each act."""
_encode = msgspec.json.Encoder().encode
_NOW: Final = "SELECT (extract(epoch FROM now()) * 1000)::bigint"


class OperatorAct(NamedTuple):
    """An act of an operator on one object."""

    name: str
    kind: str
    id: str | None
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    tenant: tuple[str, bool] | None = None
    """Tenant and mode; ``None`` for acts on the whole installation, which no tenant sees."""


def operator_of(settings: Settings) -> str:
    """The operator's name: the setting, else the login name of the user who called ``sudo``, else of this
    user."""
    name = settings.operator or os.environ.get("SUDO_USER") or _login()
    return "".join(each for each in name if each.isprintable())[:NAME_CHARS_MAX] or "unknown"


async def record(connection: Connection, operator: str, act: OperatorAct) -> None:
    """Write the row of ``act``, by the database's clock, in the connection's transaction."""
    assert act.name in OPERATOR_ACTS
    tenant_id, live = act.tenant or (None, None)
    row = ActRow(
        new_id(),
        tenant_id,
        live,
        await connection.fetchval(_NOW),
        "operator",
        operator,
        act.name,
        act.kind,
        act.id,
        _json(act.before),
        _json(act.after),
        new_id(),
    )
    await insert(connection, row)
    if (logged_in := LOGGED_IN.get()) is not None:
        append(
            *logged_in,
            ACT,
            act=act.name,
            actor=f"operator {operator}",
            object_kind=act.kind,
            object_id=act.id,
        )


async def record_alone(dsn: str, operator: str, act: OperatorAct) -> None:
    """Write the row of an act that is no transaction of this database."""
    connection = await connect_operator(dsn)
    try:
        await record(connection, operator, act)
    finally:
        await connection.close(timeout=10)


def on_installation(name: str, after: Mapping[str, Any]) -> OperatorAct:
    """An act on the whole installation."""
    return OperatorAct(name, INSTALLATION, None, None, after)


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A user id without a name, as in some containers.
        return f"uid {os.getuid()}"


def _json(view: Mapping[str, Any] | None) -> str | None:
    return None if view is None else _encode(view).decode()
