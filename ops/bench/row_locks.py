"""The rival: the same decisions as ordinary row-locking transactions, as most card platforms make them.

One transaction for each spend: lock the card's counters and its account with ``SELECT … FOR UPDATE``, decide
with the same engine, write the same rows, commit. A spend that stands in also locks its programme's row,
where the budget is. It is well tuned: prepared statements, one statement for all writes, programmes from
memory, connections without the pool's reset round trip. It does not search for lapsed holds and earlier
reversals, answer repeats, or notice changed programmes.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import asyncpg
import msgspec

from actors.cards.card_actor import CardActor
from actors.cards.rows import write_command
from actors.journal.contract import Rows
from engine.authorization.executed import CommandContext
from engine.cards.account import Account
from engine.cards.card import Card, DeclaredBalance, declared_remaining
from engine.commands import Authorize, Command
from engine.controls import Control
from engine.decision.delegation import EndpointResult
from engine.execution.execute import execute
from engine.programmes.programme import ProgrammeConfig
from engine.programmes.stand_in import Outage, StandInRequest, grant
from engine.replies import NotExecuted, Reply

_LOCK: Final = """
    SELECT c.tenant_id::text, c.live, c.programme_id::text, c.card_product_id::text, c.cardholder_id::text,
           c.account_id::text, c.network, c.currency, c.iin, c.last4, c.pan_ref, c.exp_month, c.exp_year,
           c.cvk_generation, c.state, c.controls, c.created_at AS created_ms, c.state_reason,
           c.cardholder_active, u.seq, u.day, u.day_count, u.day_amount_minor, u.cvv2_failures,
           a.posted_minor, a.held_minor, a.version
    FROM cards c JOIN card_usage u ON u.card_id = c.id JOIN accounts a ON a.id = c.account_id
    WHERE c.id = $1 FOR UPDATE OF u, a
"""
_USAGE_COLUMNS: Final = ("seq", "day", "day_count", "day_amount_minor", "cvv2_failures")
_LOCK_BUDGET: Final = """
    SELECT p.outage, d.balance_minor, d.consumed_minor
    FROM programmes p, declared_balances d WHERE p.id = $1 AND d.card_id = $2 FOR UPDATE OF p
"""
_DRAW: Final = "UPDATE programmes SET outage = $2 WHERE id = $1"
_DECLARED_COLUMNS: Final = ("balance_minor", "consumed_minor")
_BALANCE_COLUMNS: Final = ("posted_minor", "held_minor", "version")
_SESSION: Final = {
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "application_name": "bench-rival",
}
_POSTGRES_EPOCH_MS: Final = 946_684_800_000

_controls = msgspec.json.Decoder(tuple[Control, ...]).decode
_config = msgspec.json.Decoder(ProgrammeConfig).decode
_outage = msgspec.json.Decoder(Outage).decode


class RowLocks:
    """Decides spends on funded cards. ``start`` and ``stop`` it once each."""

    def __init__(self, dsn: str, connections: int) -> None:
        self._dsn = dsn
        self._count = connections
        # First come, first served: with a plain queue, a caller just served could overtake waiting ones.
        self._turn = asyncio.Semaphore(connections)
        self._free: list[asyncpg.Connection[Any]] = []
        self._programmes: dict[str, ProgrammeConfig] = {}
        self._statements: dict[tuple[int, ...], str] = {}
        self.round_trips = 0
        """Round trips to the database since the start."""

    async def start(self) -> None:
        """Connect, and read the programmes once, for the whole run."""
        self._free = [await _connect(self._dsn) for _ in range(self._count)]
        rows = await self._free[0].fetch("SELECT id::text, config FROM programmes")
        self._programmes = {row["id"]: _config(row["config"]) for row in rows}

    async def stop(self) -> None:
        """Disconnect; no transaction may be open."""
        while self._free:
            await self._free.pop().close(timeout=10)

    async def submit(self, command: Command) -> Reply:
        """Decide one spend; its reply is durable."""
        assert isinstance(command, Authorize), "the rival knows spends only"
        async with self._turn:
            connection = self._free.pop()
            try:
                return await self._transaction(connection, command)
            finally:
                self._free.append(connection)

    async def _transaction(self, connection: asyncpg.Connection[Any], command: Authorize) -> Reply:
        # BEGIN, the locking statement, the writing statement, COMMIT.
        self.round_trips += 4
        await connection.execute("BEGIN")
        try:
            reply = await self._decide(connection, command)
        except BaseException:
            await connection.execute("ROLLBACK")
            raise
        await connection.execute("COMMIT")
        return reply

    async def _decide(self, connection: asyncpg.Connection[Any], command: Authorize) -> Reply:
        row = await connection.fetchrow(_LOCK, command.card_id)
        if row is None:
            return NotExecuted("not_owner")
        card, account = _card(command.card_id, row), _account(row)
        now_ms = time.time_ns() // 1_000_000
        rows, programme = Rows(), self._programmes[card.programme_id]
        endpoint_result = None
        if programme.decisioning == "delegated":
            endpoint_result = await self._stand_in(connection, command, card, programme, now_ms)
        met = CommandContext(card, account, programme, None, endpoint_result)
        executed = execute(command, met, now_ms)
        write_command(rows, command, CardActor(card, account), executed, None, 0, now_ms, in_full=True)
        await self._write(connection, card, account, rows)
        return executed.reply

    async def _stand_in(
        self,
        connection: asyncpg.Connection[Any],
        command: Authorize,
        card: Card,
        programme: ProgrammeConfig,
        now_ms: int,
    ) -> EndpointResult:
        """Lock the programme's row and return the outage and the declared balance."""
        self.round_trips += 1
        locked = await connection.fetchrow(_LOCK_BUDGET, programme.id, card.id)
        assert locked is not None, "the programme was there at the start"
        card.declared = DeclaredBalance(locked["balance_minor"], locked["consumed_minor"], 0)
        outage = None if locked["outage"] is None else _outage(locked["outage"])
        ask = StandInRequest(
            command.id,
            card.id,
            command.amount_minor,
            command.currency,
            command.mcc,
            "timeout",
            declared_remaining(card),
        )
        after, (granted,) = grant(programme.stand_in, outage, (ask,), programme.id, now_ms)
        if after != outage:
            self.round_trips += 1
            await connection.execute(_DRAW, programme.id, msgspec.json.encode(after).decode())
        return EndpointResult(trigger="timeout", grant=granted)

    async def _write(
        self, connection: asyncpg.Connection[Any], card: Card, account: Account, rows: Rows
    ) -> None:
        tables: dict[str, Sequence[tuple[Any, ...]]] = {
            "journal_rows": rows.journal,
            "holds": rows.holds,
            "transaction_rows": rows.transactions,
            "ledger_entries": rows.entries,
            "stand_ins": rows.stand_ins,
            # The last column is the transaction id, which the database assigns.
            "event_rows": [event[:-1] for event in rows.events],
        }
        changed = [(account.id, account.posted_minor, account.held_minor, account.version)] * bool(
            rows.accounts
        )
        declared = [row[:3] for row in rows.declared.values()]
        shape = (*map(len, tables.values()), len(changed), len(declared))
        statement = self._statements.get(shape)
        if statement is None:
            statement = self._statements[shape] = _statement(tables, bool(changed), bool(declared))
        written = [value for table in tables.values() for row in table for value in row]
        await connection.fetch(
            statement,
            *written,
            *rows.usage[card.id],
            *(value for row in (*changed, *declared) for value in row),
        )


def _statement(
    tables: dict[str, Sequence[tuple[Any, ...]]], balance_changes: bool, consumes_declared: bool
) -> str:
    """One statement for all writes: an ``INSERT`` for each row, and an ``UPDATE`` of the counters, the
    balance and the declared balance."""
    number = itertools.count(1)
    parts = [
        f"INSERT INTO {table} VALUES ({', '.join(f'${next(number)}' for _ in row)})"
        for table, rows in tables.items()
        for row in rows
    ]
    parts.append(_update("card_usage", "card_id", _USAGE_COLUMNS, number))
    if balance_changes:
        parts.append(_update("accounts", "id", _BALANCE_COLUMNS, number))
    if consumes_declared:
        parts.append(_update("declared_balances", "card_id", _DECLARED_COLUMNS, number))
    head = ", ".join(f"part_{place} AS ({part})" for place, part in enumerate(parts[:-1]))
    return f"WITH {head} {parts[-1]}"


def _update(table: str, key: str, columns: tuple[str, ...], number: Iterator[int]) -> str:
    condition = f"{key} = ${next(number)}"
    return (
        f"UPDATE {table} SET {', '.join(f'{name} = ${next(number)}' for name in columns)} WHERE {condition}"
    )


def _card(card_id: str, row: asyncpg.Record) -> Card:
    values = {name: value for name, value in row.items() if name not in _BALANCE_COLUMNS}
    return Card(id=card_id, **values | {"controls": _controls(row["controls"])})


def _account(row: asyncpg.Record) -> Account:
    shared = ("tenant_id", "live", "programme_id", "currency", *_BALANCE_COLUMNS)
    return Account(id=row["account_id"], **{name: row[name] for name in shared})


async def _connect(dsn: str) -> asyncpg.Connection[Any]:
    connection = await asyncpg.connect(dsn, server_settings=_SESSION)
    await connection.set_type_codec(
        "timestamptz",
        schema="pg_catalog",
        format="tuple",
        encoder=lambda at_ms: ((at_ms - _POSTGRES_EPOCH_MS) * 1000,),
        decoder=lambda micros: micros[0] // 1000 + _POSTGRES_EPOCH_MS,
    )
    return connection
