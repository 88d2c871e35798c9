"""The rows of programme commands."""

from __future__ import annotations

import msgspec

from actors.journal.contract import ProgrammeRecord, Rows
from actors.programmes.rows import write_command
from engine import govern
from engine.ids import Derived, derive
from engine.programme import ProgrammeConfig
from engine.replies import Reply
from tests.engine.build import NOW_MS, change_programme, create_programme


def test_a_creation_opens_the_programmes_ledger() -> None:
    rows, command = Rows(), create_programme()
    governed = govern.create(command, NOW_MS)
    assert governed.config is not None
    write_command(rows, command, ProgrammeRecord(governed.config, 1), governed, 7, NOW_MS)
    ((actor_id, seq, epoch, command_key, fingerprint, kind, stored, inputs, outcome, reply, at, *_),) = (
        rows.journal
    )
    assert (actor_id, seq, epoch, command_key) == (command.id, 1, 7, command.command_key)
    assert (fingerprint, kind, inputs, outcome, at) == (None, "create_programme", None, None, NOW_MS)
    assert msgspec.json.decode(stored, type=type(command)) == command
    assert msgspec.json.decode(reply, type=Reply) == governed.reply
    assert {row[4]: row[0] for row in rows.accounts.values()} == {
        "funding_source": derive(command.id, Derived.FUNDING_SOURCE),
        "settlement": derive(command.id, Derived.SETTLEMENT),
    }
    assert set(rows.accounts_before.values()) == {0}
    assert [row[3] for row in rows.events] == ["programme.created"]
    (programme,) = rows.programmes.values()
    assert programme[-1] == b"sealed"


def test_changes_of_one_batch_leave_the_newest_version() -> None:
    rows, command = Rows(), create_programme()
    config = govern.create(command, NOW_MS).config
    assert config is not None
    for seq, name in enumerate(("One", "Two", "Three"), 2):
        change = change_programme(seq, programme_id=command.id, name=name)
        governed = govern.change(change, config, NOW_MS)
        assert governed.config is not None
        config = governed.config
        write_command(rows, change, ProgrammeRecord(config, seq), governed, 7, NOW_MS)
    assert [row[1] for row in rows.journal] == [2, 3, 4]
    ((_, _, _, version, seq, stored, secret),) = rows.programmes.values()
    assert (version, seq, secret) == (4, 4, None)
    assert msgspec.json.decode(stored, type=ProgrammeConfig) == config
    assert not rows.accounts
    assert len(rows.events) == 3
