"""The rows that record a programme command."""

from __future__ import annotations

import msgspec

from actors.journal.contract import Rows
from actors.journal.rows import AccountRow, EventRow, JournalRow, OutageRow, ProgrammeRow
from actors.journal.rule_rows import rule_row
from engine.commands import CreateProgramme, ProgrammeCommand
from engine.execution.execute_programme import ProgrammeExecuted
from engine.ids import Derived, derive
from engine.programmes.programme import Programme, ProgrammeConfig
from engine.programmes.stand_in import Outage

_encode = msgspec.json.Encoder().encode


def write_command(
    rows: Rows,
    command: ProgrammeCommand,
    before: Programme | None,
    executed: ProgrammeExecuted,
    epoch: int,
    now_ms: int,
) -> None:
    """Add all rows of ``command``, which has changed the programme from ``before`` to ``executed.after``."""
    after = executed.after
    assert after is not None, "only changes are written"
    config = after.config
    rows.journal.append(
        JournalRow(
            config.id,
            after.seq,
            epoch,
            command.command_key,
            None,
            str(command.__struct_config__.tag),
            _encode(command).decode(),
            None,
            None,
            _encode(executed.reply).decode(),
            now_ms,
            None,
        )
    )
    rows.programmes[config.id] = ProgrammeRow(
        config.id,
        config.tenant_id,
        config.live,
        config.version,
        after.seq,
        _encode(config).decode(),
        after.decision_secret_sealed,
        None if after.outage is None else _encode(after.outage).decode(),
    )
    if isinstance(command, CreateProgramme):
        for kind, derived in (("funding_source", Derived.FUNDING_SOURCE), ("settlement", Derived.SETTLEMENT)):
            rows.set_balance(_ledger_account(config, derive(config.id, derived), kind), 0)
    if executed.rule is not None:
        rows.rules.append(rule_row(executed.rule, config.tenant_id, config.live, config.id))
    for event in executed.events:
        row = EventRow(event.id, config.tenant_id, config.live, event.type, now_ms, event.data, None)
        rows.events.append(row)
    _write_outage(rows, config, before.outage if before else None, after.outage, now_ms)


def _write_outage(
    rows: Rows, config: ProgrammeConfig, before: Outage | None, after: Outage | None, now_ms: int
) -> None:
    """The rows of the outage periods that ended, began or used exposure."""
    if before is not None and (after is None or (after.id, after.period) != (before.id, before.period)):
        rows.outages[before.id, before.period] = _outage(rows, config, before, now_ms, now_ms)
    if after is not None and after != before:
        rows.outages[after.id, after.period] = _outage(rows, config, after, now_ms, None)


def _outage(
    rows: Rows, config: ProgrammeConfig, outage: Outage, now_ms: int, ended_ms: int | None
) -> OutageRow:
    """``started_at`` is stored with the first row of a period only."""
    earlier = rows.outages.get((outage.id, outage.period))
    return OutageRow(
        outage.id,
        outage.period,
        config.tenant_id,
        config.live,
        config.id,
        outage.currency,
        outage.used_minor,
        earlier.started_at if earlier else now_ms,
        ended_ms,
    )


def _ledger_account(config: ProgrammeConfig, id_: str, kind: str) -> AccountRow:
    return AccountRow(id_, config.tenant_id, config.live, config.id, kind, config.currency, 0, 0, 1)
