"""The rival inside the database: a PL/pgSQL function that decides a batch of spends and writes the rows.

``procedure.sql`` has the rules and writes the rows; this module is the client in front of it. A call is one
round trip and one transaction. Batches are self-clocked: spends that arrive during one call form the next
batch, as in the shard hosts. A spend's card determines its connection, so that the batches of one process do
not wait for each other's rows. Ids, the command's text and its risk score are made here, because
they do not depend on stored state.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import asyncpg
import msgspec

from actors.batcher import Batcher
from engine.commands import Authorize, Command
from engine.controls import Control
from engine.decision import risk
from engine.ids import Derived, approval_code, derive
from engine.programmes.programme import ProgrammeConfig, hold_expiry_days
from engine.replies import NotExecuted, Reply, WireAnswer

SCHEMA: Final = Path(__file__).with_suffix(".sql").read_text()
BATCH_MAX: Final = 256
"""The same cap as in a shard host."""
_CALL: Final = "SELECT * FROM bench_authorize_all($1, $2)"
_ALWAYS: Final = {"jit": "off", "application_name": "bench-rival"}
_NESTED: Final = {
    # Plans must use the primary keys, even if the tables were small when the statements were planned.
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
}
_SESSION: Final = _ALWAYS | _NESTED
_RULES: Final = (
    "mcc_allow",
    "mcc_deny",
    "country_allow",
    "country_deny",
    "channel_allow",
    "channel_deny",
    "per_txn_cap",
    "per_day_cap",
    "per_day_amount_cap",
)

_config = msgspec.json.Decoder(ProgrammeConfig).decode
_controls = msgspec.json.Decoder(tuple[Control, ...]).decode
_encode = msgspec.json.Encoder().encode


async def install(dsn: str) -> None:
    """Add the functions to a migrated database, and store programmes and controls as columns."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(SCHEMA)
        programmes = [
            _programme(_config(row[0])) for row in await connection.fetch("SELECT config FROM programmes")
        ]
        await connection.copy_records_to_table("bench_programmes", records=programmes)
        cards = await connection.fetch("SELECT id::text, controls FROM cards WHERE controls <> '[]'")
        rules = [(row["id"], *_rules(_controls(row["controls"]))) for row in cards]
        await connection.copy_records_to_table("bench_rules", records=rules)
        await connection.execute("ANALYZE bench_programmes, bench_rules")
    finally:
        await connection.close(timeout=10)


class ProcedureBatches:
    """One call for each batch. ``start`` and ``stop`` it once each."""

    def __init__(self, dsn: str, connections: int) -> None:
        """``connections``: each has one open batch."""
        self._dsn = dsn
        self._count = connections
        self._connections: list[_BatchConnection] = []

    @property
    def round_trips(self) -> int:
        """Round trips to the database since the start."""
        return sum(each.calls for each in self._connections)

    async def start(self) -> None:
        """Connect."""
        self._connections = [_BatchConnection(await _connect(self._dsn)) for _ in range(self._count)]

    async def stop(self) -> None:
        """Disconnect; no call may be open."""
        for each in self._connections:
            await each.close()

    async def submit(self, command: Command) -> Reply:
        """Decide one spend; its reply is durable."""
        assert isinstance(command, Authorize), "the rival knows spends only"
        # The byte before the shard, which is as random.
        connection = self._connections[int(command.card_id[-4:-2], 16) % self._count]
        return await connection.submit(command)


class _BatchConnection:
    """One connection, with one batch at a time."""

    def __init__(self, connection: asyncpg.Connection[Any]) -> None:
        self._connection = connection
        self._batcher = Batcher(self._flush, BATCH_MAX)
        self._replies: dict[bytes, Reply] = {}
        self.calls = 0

    async def submit(self, command: Authorize) -> Reply:
        await self._batcher.add((command,))
        return self._replies.pop(command.command_key)

    async def _flush(self, commands: list[Authorize]) -> None:
        self.calls += 1
        spends = [spend_of(command, place) for place, command in enumerate(commands)]
        rows = {row["place"]: row for row in await self._connection.fetch(_CALL, spends, _now_ms())}
        for place, command in enumerate(commands):
            self._replies[command.command_key] = _reply(command, rows.get(place))

    async def close(self) -> None:
        await self._connection.close(timeout=10)


def spend_of(command: Authorize, place: int) -> tuple[Any, ...]:
    """``command`` as a value of the SQL type ``bench_spend``."""
    assert command.kind == "purchase", "the rival knows purchases only"
    assert command.amount_minor > 0, "the rival verifies no accounts"
    assert not command.references, "the rival raises no holds"
    assert not command.partial_allowed, "the rival approves all or nothing"
    return (
        place,
        command.id,
        command.card_id,
        command.command_key,
        _encode(command).decode(),
        command.amount_minor,
        command.currency,
        command.mcc,
        command.merchant_country,
        command.channel,
        risk.score(command, 0),
        hold_expiry_days(0, command.mcc),
        approval_code(command.id),
        command.wire.network_txn_id,
        command.wire.stan,
        command.wire.rrn,
        *(derive(command.id, kind) for kind in _DERIVED),
    )


_DERIVED: Final = (Derived.HOLD, Derived.EVENT_FIRST, Derived.EVENT_SECOND, Derived.STAND_IN, Derived.OUTAGE)


def _reply(command: Authorize, row: asyncpg.Record | None) -> Reply:
    if row is None or row["response_code"] is None:
        return NotExecuted("not_owner")
    approved_minor = row["approved_minor"]
    code = approval_code(command.id) if approved_minor else None
    return WireAnswer(row["response_code"], command.id, code, approved_minor)


def _programme(config: ProgrammeConfig) -> tuple[Any, ...]:
    policy = config.stand_in
    return (
        config.id,
        config.version,
        config.status,
        config.timezone,
        config.hold_expiry_days,
        config.decisioning == "delegated",
        policy.mode,
        policy.triggers.timeout,
        policy.max_amount_minor,
        policy.max_total_exposure_minor,
        policy.budget_currency,
        list(policy.mcc_list),
        policy.mcc_list_mode == "allow",
        None,
        0,
    )


def _rules(controls: tuple[Control, ...]) -> tuple[Any, ...]:
    """Controls as one column for each kind."""
    found: dict[str, Any] = {}
    for control in controls:
        (value,) = msgspec.structs.astuple(control)
        kind = str(control.__struct_config__.tag)
        assert kind not in found, "the rival knows one control of each kind"
        found[kind] = list(value) if isinstance(value, tuple) else value
    return tuple(found.get(kind) for kind in _RULES)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def _connect(dsn: str) -> asyncpg.Connection[Any]:
    return await asyncpg.connect(dsn, server_settings=_SESSION)
