"""Shows the installation's log at its terminal: formatted for people on a terminal, unchanged for log
collectors.

The supervisor's own messages are left out: it prints them itself.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import IO, Final

import msgspec
import structlog

from ops.supervision.log_tail import LogTail

POLL_SECONDS: Final = 0.25
_PRINTED: Final = '"level":"info","process":"supervisor"'
"""Marks lines that the supervisor prints itself."""
_FREQUENT: Final = ('"event":"act"', '"event":"decision"')
"""Marks lines that a terminal does not show: they would hide the others. They are in the file."""
_FIRST: Final = ("at", "level", "process", "event")


class LogView:
    """Shows lines added after ``start``. ``stop`` shows the last ones; safe to call twice."""

    def __init__(self, var_dir: Path, output: IO[str]) -> None:
        self._var_dir = var_dir
        self._output = output
        self._pretty = output.isatty()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._tail: LogTail | None = None

    def start(self) -> None:
        """Start to show new lines."""
        self._tail = LogTail(self._var_dir)
        self._thread = threading.Thread(target=self._follow, args=(self._tail,), name="log-view", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._tail is not None:
            self._tail.close()
            self._tail = None

    def _follow(self, tail: LogTail) -> None:
        while not self._stopping.wait(POLL_SECONDS):
            self._show_new(tail)
        self._show_new(tail)

    def _show_new(self, tail: LogTail) -> None:
        for text in tail.lines():
            frequent = self._pretty and any(mark in text for mark in _FREQUENT)
            if _PRINTED not in text and not frequent:
                print(for_people(text) if self._pretty else text, file=self._output, flush=True)


def for_people(text: str, *, colors: bool = True) -> str:
    """A formatted log line: time, level, process, event and fields."""
    try:
        line: dict[str, object] = msgspec.json.decode(text, type=dict[str, object])
        at, level, process, event = (str(line.pop(name)) for name in _FIRST)
    except (msgspec.MsgspecError, KeyError):
        return text
    color = structlog.dev.ConsoleRenderer.get_default_level_styles().get(level, "")
    shown = f"{color}{level:<7}\x1b[0m" if colors else f"{level:<7}"
    particulars = "".join(f" {name}={_plain(value)}" for name, value in line.items())
    return f"{at[11:19]} {shown} {process} {event}{particulars}"


def _plain(value: object) -> str:
    """Escaped, so that line feeds and control characters do not reach the terminal."""
    return value if isinstance(value, str) and value.isprintable() else msgspec.json.encode(value).decode()
