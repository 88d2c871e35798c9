"""The rows of programme commands."""

from __future__ import annotations

import msgspec

from actors.journal.contract import Rows
from actors.programmes.rows import write_command
from engine.execution import execute_programme
from engine.ids import Derived, derive
from engine.programmes.programme import ProgrammeConfig
from engine.replies import Reply
from tests.support.engine.build import NOW_MS, change_programme, create_programme


def test_creation_opens_the_ledger_accounts_of_the_programme() -> None:
    rows, command = Rows(), create_programme()
    governed = execute_programme.create(command, NOW_MS)
    write_command(rows, command, None, governed, 7, NOW_MS)
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
    assert programme[-2:] == (b"sealed", None)


def test_changes_of_one_batch_write_the_newest_version() -> None:
    rows, command = Rows(), create_programme()
    programme = execute_programme.create(command, NOW_MS).after
    assert programme is not None
    for seq, name in enumerate(("One", "Two", "Three"), 2):
        change = change_programme(seq, programme_id=command.id, name=name)
        governed = execute_programme.change(change, programme, NOW_MS)
        write_command(rows, change, programme, governed, 7, NOW_MS)
        assert governed.after is not None
        programme = governed.after
    assert [row[1] for row in rows.journal] == [2, 3, 4]
    ((_, _, _, version, seq, stored, secret, outage),) = rows.programmes.values()
    assert (version, seq, secret, outage) == (4, 4, b"sealed", None)
    assert msgspec.json.decode(stored, type=ProgrammeConfig) == programme.config
    assert not rows.accounts
    assert len(rows.events) == 3
