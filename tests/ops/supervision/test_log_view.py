"""The log at the terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from actors.log import LOG_FILE, processors
from ops.supervision.log_view import LogView, for_people


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(var_dir: Path, event: str) -> Path:
    """The log with one more line."""
    path = var_dir / LOG_FILE
    path.parent.mkdir(exist_ok=True)
    line = {"event": event, "level": "warning", "process": "edge", "at": "2026-11-21T18:40:08.2Z", "n": 1}
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    return path


def test_new_lines_are_passed_on_unchanged(tmp_path: Path) -> None:
    written(tmp_path, "yesterday")
    output = io.StringIO()
    view = LogView(tmp_path, output)
    view.start()
    written(tmp_path, "today")
    view.stop()
    view.stop()
    (line,) = output.getvalue().splitlines()
    assert json.loads(line)["event"] == "today"


def test_a_terminal_shows_formatted_lines(tmp_path: Path) -> None:
    output = Terminal()
    view = LogView(tmp_path, output)
    view.start()
    written(tmp_path, "late_approval")
    view.stop()
    assert "18:40:08 " in output.getvalue()
    assert output.getvalue().endswith(" edge late_approval n=1\n")


def test_a_terminal_leaves_out_acts_and_decisions(tmp_path: Path) -> None:
    written(tmp_path, "before")
    for output, shown in ((Terminal(), False), (io.StringIO(), True)):
        view = LogView(tmp_path, output)
        view.start()
        with (tmp_path / LOG_FILE).open("a") as file:
            # As the log writes them: without spaces.
            file.write('{"event":"decision","level":"info","process":"host-1","at":"2026-11-21T18:40:08Z"}\n')
        view.stop()
        assert ("decision" in output.getvalue()) is shown


def test_a_rotated_log_is_followed(tmp_path: Path) -> None:
    output = io.StringIO()
    path = written(tmp_path, "old")
    view = LogView(tmp_path, output)
    view.start()
    written(tmp_path, "last of the old")
    path.rename(path.with_suffix(".1"))
    written(tmp_path, "first of the new")
    view.stop()
    assert [json.loads(line)["event"] for line in output.getvalue().splitlines()] == [
        "last of the old",
        "first of the new",
    ]


def test_lines_in_another_format_are_shown_unchanged() -> None:
    assert for_people("not JSON") == "not JSON"
    assert for_people("[1]") == "[1]"
    assert for_people('{"event": "x"}') == '{"event": "x"}'


def test_control_characters_do_not_reach_the_terminal() -> None:
    line = {"event": "x", "level": "error", "process": "p", "at": "2026-11-21T18:40:08.2Z", "v": "a\x1b[2J\n"}
    shown = for_people(json.dumps(line))
    assert "\x1b[2J" not in shown
    assert "\n" not in shown


def test_start_and_stop_of_the_supervisor_are_not_shown_twice(tmp_path: Path) -> None:
    output = io.StringIO()
    path = written(tmp_path, "yesterday")
    view = LogView(tmp_path, output)
    view.start()
    render = processors("supervisor")
    with path.open("a") as file:
        for level, event in (("info", "serving"), ("warning", "process_lost")):
            line: Any = {"event": event}
            for each in render:
                line = each(None, level, line)
            file.write(f"{line}\n")
    view.stop()
    assert [json.loads(line)["event"] for line in output.getvalue().splitlines()] == ["process_lost"]
