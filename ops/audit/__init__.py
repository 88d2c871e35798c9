"""The audit of the books: every promise that the rows alone can prove or refute.

``stanchion audit`` reads one snapshot of the whole database, so it can run beside live traffic. It trusts no
state in memory. Each check reports for each of its subjects whether the promise holds. Decisions are
recomputed from their stored inputs and compared byte by byte.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import asyncpg
import msgspec

from actors.database_address import servers_of
from actors.journal.rule_versions import load_rule_versions
from actors.primary import CannotConnectError, connect
from actors.vault import Vault
from engine.commands import Authorize
from engine.decision.decide import authorize
from engine.decision.recorded import decode_inputs
from engine.rules.evaluate import recorded_rules
from ops.audit.books import BOOKS
from ops.audit.cardholders import CARDHOLDERS, READABLE, unreadable
from ops.audit.configurations import CONFIGURED, changed_configurations
from ops.audit.gateway import GATEWAY
from ops.audit.kyc import KYC
from ops.audit.presentments import PRESENTMENTS
from ops.audit.replacements import REPLACEMENTS
from ops.audit.replay import replay, rows_agree
from ops.audit.stand_in import STAND_IN
from ops.audit.transfers import TRANSFERS
from ops.audit.webhooks import WEBHOOKS

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

EXAMPLES_MAX: Final = 3
REPLAY_FETCH: Final = 1_000

_command = msgspec.json.Decoder(Authorize).decode
_encode = msgspec.json.Encoder().encode


class AuditError(Exception):
    """The audit cannot run, or has found a broken promise. The message is one line."""


@dataclass(frozen=True)
class Finding:
    """The result of one check. ``examples``: ids of the first subjects for which the promise does not
    hold."""

    promise: str
    subjects: int
    broken: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        verdict = f"BROKEN for {self.broken} of" if self.broken else "holds for"
        examples = f": {', '.join(self.examples)}" if self.broken else ""
        return f"{self.promise}: {verdict} {self.subjects}{examples}"


CONNECT_SECONDS: Final = 10.0
_REPEATABLE: Final = "decisions recomputed from stored inputs have the same bytes"
_SAME_ANSWERS: Final = "replaying a card's journal gives the same answers"
_RECOMPUTATIONS: Final = 4
"""Findings of `_configured`, `_recompute` and `_replay`."""
_SAME_STATE: Final = "replaying a card's journal gives the same counters, balance and transactions"

# Each statement returns rows (subject, holds) for all subjects of its promise.
PROMISES: Final = (
    BOOKS | TRANSFERS | PRESENTMENTS | GATEWAY | STAND_IN | WEBHOOKS | KYC | CARDHOLDERS | REPLACEMENTS
)


Progress = Callable[[str, int, int | None], None]
"""Shows ``done`` of ``total`` checks."""


def _silent(_stage: str, _done: int, _total: int | None) -> None:
    """Shows nothing."""


async def audit(dsn: str, vault: Vault | None = None, progress: Progress = _silent) -> list[Finding]:
    """Check every promise on one snapshot of the database at ``dsn``; with a ``vault`` also that sealed
    personal data can be opened. Raises AuditError when the database cannot be read."""
    try:
        async with _snapshot(dsn) as connection:
            results = await findings(connection, progress)
            return results if vault is None else [*results, await _readable(connection, vault)]
    except CannotConnectError as failure:
        raise AuditError(f"the database cannot be reached: {failure}") from None
    except (OSError, TimeoutError, asyncpg.InterfaceError) as failure:
        raise AuditError(f"the database cannot be reached: {type(failure).__name__}") from None
    except asyncpg.PostgresError as failure:
        raise AuditError(f"the database cannot be read: {str(failure).splitlines()[0]}") from None


async def findings(connection: Connection, progress: Progress = _silent) -> list[Finding]:
    """Check every promise inside the transaction that ``connection`` is in."""
    results: list[Finding] = []
    total = len(PROMISES) + _RECOMPUTATIONS
    for promise, sql in PROMISES.items():
        progress("checks", len(results), total)
        results.append(await _check(connection, promise, sql))
    progress("checks", len(results), total)
    results.append(await _configured(connection))
    progress("checks", len(results), total)
    results.append(await _recompute(connection))
    progress("checks", len(results), total)
    results += await _replay(connection)
    progress("checks", total, total)
    return results


@asynccontextmanager
async def _snapshot(dsn: str) -> AsyncIterator[Connection]:
    connection = await _connect(dsn)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            yield connection
    finally:
        await connection.close(timeout=10)


async def _connect(dsn: str) -> asyncpg.Connection[Any]:
    """Of several servers, connect to the primary. An address with one server may name a standby."""
    settings = {"jit": "off"}
    if len(servers_of(dsn)) > 1:
        return await connect(dsn, "stanchion-audit", CONNECT_SECONDS, settings)
    return await asyncpg.connect(dsn, timeout=CONNECT_SECONDS, server_settings=settings)


async def _check(connection: Connection, promise: str, sql: str) -> Finding:
    row = await connection.fetchrow(
        f"WITH facts (subject, holds) AS ({sql})"
        " SELECT count(*) AS subjects, count(*) FILTER (WHERE holds IS NOT TRUE) AS broken,"
        f" (array_agg(subject::text) FILTER (WHERE holds IS NOT TRUE))[1:{EXAMPLES_MAX}] AS examples"
        " FROM facts"
    )
    assert row is not None
    return Finding(promise, row["subjects"], row["broken"], tuple(row["examples"] or ()))


async def _readable(connection: Connection, vault: Vault) -> Finding:
    subjects, broken = await unreadable(connection, vault)
    return Finding(READABLE, subjects, len(broken), tuple(broken[:EXAMPLES_MAX]))


async def _configured(connection: Connection) -> Finding:
    subjects, broken = await changed_configurations(connection)
    return Finding(CONFIGURED, subjects, len(broken), tuple(broken[:EXAMPLES_MAX]))


async def _recompute(connection: Connection) -> Finding:
    decisions = 0
    different: list[str] = []
    versions = await load_rule_versions(connection)
    rows = connection.cursor(
        "SELECT command, inputs, decision FROM journal WHERE kind IN ('authorize', 'increment')",
        prefetch=REPLAY_FETCH,
    )
    async for row in rows:
        decisions += 1
        command = _command(row["command"])
        try:
            inputs = decode_inputs(row["inputs"])
            rules = recorded_rules(inputs.rules_in_force, versions)
        except (KeyError, msgspec.DecodeError):
            # A version of a rule or a configuration is missing: the decision cannot be recomputed.
            different.append(command.id)
            continue
        if _encode(authorize(command, inputs, rules)) != row["decision"].encode():
            different.append(command.id)
    return Finding(_REPEATABLE, decisions, len(different), tuple(different[:EXAMPLES_MAX]))


async def _replay(connection: Connection) -> tuple[Finding, Finding]:
    commands, cards = 0, 0
    different: list[str] = []
    deviating: list[str] = []
    async for unit in replay(connection):
        commands += unit.commands
        cards += len(unit.state.cards)
        if unit.differs_at is not None:
            different.append(unit.differs_at)
            continue
        deviating += [id_ for id_ in unit.state.cards if not await rows_agree(connection, unit, id_)]
    return (
        Finding(_SAME_ANSWERS, commands, len(different), tuple(different[:EXAMPLES_MAX])),
        Finding(_SAME_STATE, cards, len(deviating), tuple(deviating[:EXAMPLES_MAX])),
    )
