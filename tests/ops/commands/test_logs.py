"""``stanchion logs``: past lines, filters, and lines that are added later."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.log import LOG_FILE
from ops.cli import app
from ops.commands.logs import LogFilter, LogsError, logs

LINES = (
    {"event": "started", "level": "info", "process": "api-0", "at": "2026-11-23T04:00:00Z", "pid": 7},
    {"event": "started", "level": "info", "process": "edge", "at": "2026-11-23T04:00:01Z", "pid": 8},
    {"event": "decision", "level": "info", "process": "host-1-2", "at": "2026-11-23T04:00:02Z"},
    {"event": "link_down", "level": "warning", "process": "edge", "at": "2026-11-23T04:00:03Z"},
)


def write(var_dir: Path, *texts: str) -> None:
    path = var_dir / LOG_FILE
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.writelines(f"{text}\n" for text in texts)


@pytest.fixture
def var_dir(tmp_path: Path) -> Path:
    write(tmp_path, *map(json.dumps, LINES), "not JSON")
    return tmp_path


def events(var_dir: Path, wanted: LogFilter, last: int = 100) -> list[str]:
    found = logs(var_dir, wanted, last=last)
    return [json.loads(line)["event"] if line.startswith("{") else line for line in found]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, ["started", "started", "decision", "link_down", "not JSON"]),
        ({"level": "warning"}, ["link_down", "not JSON"]),
        ({"level": "error"}, ["not JSON"]),
        ({"process": "edge"}, ["started", "link_down"]),
        ({"process": "host"}, ["decision"]),
        ({"process": "api-0"}, ["started"]),
        ({"process": "api", "event": "started"}, ["started"]),
        ({"event": "none"}, []),
    ],
)
def test_lines_are_filtered(var_dir: Path, wanted: dict[str, str], expected: list[str]) -> None:
    assert events(var_dir, LogFilter(**wanted)) == expected


def test_last_lines_are_shown_oldest_first(var_dir: Path) -> None:
    assert events(var_dir, LogFilter(), 2) == ["link_down", "not JSON"]
    assert events(var_dir, LogFilter(), 0) == []


def test_later_lines_are_followed_also_into_a_new_file(var_dir: Path) -> None:
    steps: Iterator[Callable[[], object]] = iter(
        (
            lambda: write(var_dir, '{"event": "later", "level": "info"}'),
            lambda: (var_dir / LOG_FILE).rename(var_dir / "old"),
            lambda: write(var_dir, '{"event": "newest", "level": "info"}'),
        )
    )

    def sleep(_seconds: float) -> None:
        next(steps)()

    followed = logs(var_dir, LogFilter(), last=1, follow=True, sleep=sleep)
    assert [next(followed) for _ in range(3)] == [
        "not JSON",
        '{"event": "later", "level": "info"}',
        '{"event": "newest", "level": "info"}',
    ]


def test_without_a_log_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(LogsError, match="there is no log in"):
        list(logs(tmp_path, LogFilter(), last=1))


def test_command_prints_for_people_or_as_in_the_file(var_dir: Path) -> None:
    shown = CliRunner().invoke(app, ["logs", "-n", "2", "--var", str(var_dir)])
    assert shown.stdout == "04:00:03 warning edge link_down\nnot JSON\n"
    raw = CliRunner().invoke(app, ["logs", "--event", "decision", "--json", "--var", str(var_dir)])
    assert json.loads(raw.stdout) == LINES[2]
    wrong = CliRunner().invoke(app, ["logs", "--level", "loud", "--var", str(var_dir)])
    assert wrong.exit_code == 2
