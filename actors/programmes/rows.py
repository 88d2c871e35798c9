"""From what a programme command did to the rows that record it."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.journal.contract import ProgrammeRecord, Rows
from engine.commands import CreateProgramme, ProgrammeCommand
from engine.govern import Governed
from engine.ids import Derived, derive
from engine.programme import ProgrammeConfig

_encode = msgspec.json.Encoder().encode


def write_command(
    rows: Rows,
    command: ProgrammeCommand,
    record: ProgrammeRecord,
    governed: Governed,
    epoch: int,
    now_ms: int,
) -> None:
    """Add all rows of ``governed``; ``record`` is the programme after it."""
    config = record.config
    rows.journal.append(
        (
            config.id,
            record.seq,
            epoch,
            command.command_key,
            None,
            command.__struct_config__.tag,
            _encode(command).decode(),
            None,
            None,
            _encode(governed.reply).decode(),
            now_ms,
            None,
        )
    )
    secret = command.decision_secret_sealed if isinstance(command, CreateProgramme) else None
    rows.programmes[config.id] = (
        config.id,
        config.tenant_id,
        config.live,
        config.version,
        record.seq,
        _encode(config).decode(),
        secret,
    )
    if isinstance(command, CreateProgramme):
        for kind, derived in (("funding_source", Derived.FUNDING_SOURCE), ("settlement", Derived.SETTLEMENT)):
            rows.balance(_ledger_account(config, derive(config.id, derived), kind), 0)
    for event in governed.events:
        rows.events.append((event.id, config.tenant_id, config.live, event.type, now_ms, event.data, None))


def _ledger_account(config: ProgrammeConfig, id_: str, kind: str) -> tuple[Any, ...]:
    return (id_, config.tenant_id, config.live, config.id, kind, config.currency, 0, 0, 1)
