"""``stanchion archive``: a month's rows in files, its manifest, and the differences that ``verify`` finds."""

from __future__ import annotations

import asyncio
import gzip
import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from typer.testing import CliRunner, Result

from actors.ids import new_id
from ops.cli import app
from ops.commands.archive import MANIFEST, TABLES, ArchiveError, found, parse_month, verify, write
from ops.commands.audit_log import acts
from ops.commands.progress import no_progress
from tests.support.ops.pages import fence

MONTH = "2025-10"
INSIDE = ("2025-10-01T00:00:00Z", "2025-10-31T23:59:59.999999Z")
OUTSIDE = ("2025-09-30T23:59:59.999999Z", "2025-11-01T00:00:00Z")


@pytest.fixture
async def filled(database_url: str) -> str:
    """A database with rows of the audit log and of the journal at both ends of a month, and beyond."""
    connection = await asyncpg.connect(database_url)
    try:
        for at in (*INSIDE, *OUTSIDE):
            await connection.execute(
                "INSERT INTO audit_log (id, recorded_at, actor_kind, actor, act, object_kind, request_id)"
                " VALUES ($1, $2::text::timestamptz, 'operator', 'ann', 'drain_node', 'installation', 'r')",
                new_id(),
                at,
            )
            await connection.execute(
                "INSERT INTO journal_rows"
                " (actor_id, seq, epoch, command_key, kind, command, reply, recorded_at)"
                " VALUES ($1, 1, 1, $3, 'kind', '{\"ä\": 1}', 'line\nbreak', $2::text::timestamptz)",
                new_id(),
                at,
                b"\x00" + at.encode(),
            )
    finally:
        await connection.close()
    return database_url


async def archived(dsn: str, folder: Path) -> dict[str, Any]:
    return await write(dsn, parse_month(MONTH), folder, no_progress)


def rows_of(folder: Path, table: str) -> list[dict[str, Any]]:
    with gzip.open(folder / MONTH / f"{table}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


async def test_month_has_its_rows_and_no_others(filled: str, tmp_path: Path) -> None:
    shown: list[tuple[str, int, int | None]] = []
    manifest = await write(filled, parse_month(MONTH), tmp_path, lambda *step: shown.append(step))
    assert [each["name"] for each in manifest["files"]] == [f"{table}.jsonl.gz" for table in TABLES]
    assert ("journal", 2, 2) in shown
    log = rows_of(tmp_path, "audit_log")
    assert sorted(row["recorded_at"] for row in log) == [
        "2025-10-01T00:00:00+00:00",
        "2025-10-31T23:59:59.999999+00:00",
    ]
    for row in rows_of(tmp_path, "journal"):
        assert (row["command"], row["reply"]) == ('{"ä": 1}', "line\nbreak")
        assert row["command_key"].startswith("\\x0032")
    assert rows_of(tmp_path, "events") == []
    for path in (tmp_path / MONTH).iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
    (month,) = verify(tmp_path, no_progress)
    assert (month.month, month.rows) == (MONTH, 4)


async def test_equal_rows_give_equal_files(filled: str, tmp_path: Path) -> None:
    first, second = [await archived(filled, tmp_path / name) for name in ("a", "b")]
    assert first["files"] == second["files"]


async def test_complete_month_is_not_replaced_and_an_interrupted_one_is(filled: str, tmp_path: Path) -> None:
    await archived(filled, tmp_path)
    with pytest.raises(ArchiveError, match="is complete already"):
        await archived(filled, tmp_path)
    (tmp_path / MONTH / MANIFEST).unlink()
    assert found(tmp_path) == []
    with pytest.raises(ArchiveError, match="has no archived month"):
        verify(tmp_path, no_progress)
    await archived(filled, tmp_path)
    assert [month.month for month in verify(tmp_path, no_progress)] == [MONTH]


async def test_month_that_is_not_over_is_refused(database_url: str, tmp_path: Path) -> None:
    connection = await asyncpg.connect(database_url)
    now = await connection.fetchval("SELECT now()")
    await connection.close()
    with pytest.raises(ArchiveError, match=r"can be archived from \d{4}-\d\d-02 on"):
        await write(database_url, parse_month(f"{now:%Y-%m}"), tmp_path, no_progress)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["2025-13", "2025-00", "2025-1", "25-10", "2025-10-01", "0000-01", "9999-12", ""]
)
def test_invalid_month_is_refused(text: str) -> None:
    with pytest.raises(ArchiveError, match="like 2026-10"):
        parse_month(text)


def _cut(month: Path) -> None:
    path = month / "journal.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-9])


def _flip(month: Path) -> None:
    path = month / "journal.jsonl.gz"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def _drop(month: Path) -> None:
    (month / "audit_log.jsonl.gz").unlink()


def _claim_rows(month: Path) -> None:
    _change_manifest(month, lambda manifest: manifest["files"][0].update(rows=3))


def _unlist(month: Path) -> None:
    _change_manifest(month, lambda manifest: manifest["files"].pop())


def _other_month(month: Path) -> None:
    _change_manifest(month, lambda manifest: manifest.update(month="2025-09"))


def _climb(month: Path) -> None:
    _change_manifest(month, lambda manifest: manifest["files"][0].update(name="../journal.jsonl.gz"))


def _garble(month: Path) -> None:
    (month / MANIFEST).write_text("{")


def _change_manifest(month: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((month / MANIFEST).read_bytes())
    change(manifest)
    (month / MANIFEST).write_text(json.dumps(manifest))


async def test_every_damage_is_found(filled: str, tmp_path: Path) -> None:
    await archived(filled, tmp_path / "whole")
    for damage, message in (
        (_cut, "journal.jsonl.gz has changed"),
        (_flip, "journal.jsonl.gz has changed"),
        (_drop, "audit_log.jsonl.gz is missing"),
        (_claim_rows, "journal.jsonl.gz has 2 rows instead of 3"),
        (_unlist, "does not list audit_log.jsonl.gz"),
        (_other_month, "is of 2025-09"),
        (_climb, "cannot be read"),
        (_garble, "cannot be read"),
    ):
        folder = tmp_path / damage.__name__
        shutil.copytree(tmp_path / "whole", folder)
        damage(folder / MONTH)
        with pytest.raises(ArchiveError, match=message):
            verify(folder, no_progress)


async def test_commands_of_the_page(filled: str, tmp_path: Path) -> None:
    """COMMANDS.md, with another month and folder."""
    lines = fence("ops/docs/COMMANDS.md", "Archives", "sh").replace("2026-10", MONTH)
    written, verified, listed = [
        await stanchion(
            filled, tmp_path, *shlex.split(line.replace("/srv/archive", str(tmp_path / "archive")))[1:]
        )
        for line in lines.splitlines()
    ]
    assert f"{tmp_path}/archive/{MONTH}/journal.jsonl.gz: 2 rows" in written.output
    assert verified.output == f"1 month verified: {MONTH} to {MONTH}.\n"
    assert listed.output.splitlines()[1].split()[:2] == [MONTH, "4"]
    assert [result.exit_code for result in (written, verified, listed)] == [0, 0, 0]
    (newest,) = [row async for row in acts(filled, act="write_archive")]
    assert json.loads(newest["after"]) == {"month": MONTH, "folder": f"{tmp_path}/archive"}
    as_json = await stanchion(filled, tmp_path, "archive", "list", f"{tmp_path}/archive", "--json")
    assert json.loads(as_json.output)["month"] == MONTH


async def stanchion(dsn: str, folder: Path, *arguments: str) -> Result:
    environment = {"STANCHION_DATABASE_URL": dsn, "STANCHION_VAR_DIR": str(folder / "var")}
    return await asyncio.to_thread(lambda: CliRunner().invoke(app, list(arguments), env=environment))
