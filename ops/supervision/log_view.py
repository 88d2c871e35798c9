"""Shows the installation's log at its terminal: formatted for people on a terminal, unchanged for log
collectors.

The supervisor's own messages are left out: it prints them itself.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import IO, Final

import msgspec
import structlog

from actors.log import LOG_FILE

POLL_SECONDS: Final = 0.25
_PRINTED: Final = '"level":"info","process":"supervisor"'
"""Marks lines that the supervisor prints itself."""
_FIRST: Final = ("at", "level", "process", "event")


class LogView:
    """Shows lines added after ``start``. ``stop`` shows the last ones; safe to call twice."""

    def __init__(self, var_dir: Path, output: IO[str]) -> None:
        self._path = var_dir / LOG_FILE
        self._output = output
        self._pretty = output.isatty()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._file: IO[bytes] | None = None
        self._rest = b""

    def start(self) -> None:
        """Start to show new lines."""
        self._open(os.SEEK_END)
        self._thread = threading.Thread(target=self._follow, name="log-view", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def _follow(self) -> None:
        while not self._stopping.wait(POLL_SECONDS):
            self._show_new()
        self._show_new()

    def _show_new(self) -> None:
        if self._file is not None:
            self._show(self._file.read())
        if self._moved():
            self._open(os.SEEK_SET)
            if self._file is not None:
                self._show(self._file.read())

    def _moved(self) -> bool:
        """Whether the log was replaced by another file: it is new, or logrotate has moved it."""
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        return self._file is None or os.fstat(self._file.fileno()).st_ino != there.st_ino

    def _open(self, whence: int) -> None:
        if self._file is not None:
            self._file.close()
        try:
            self._file = self._path.open("rb")
        except FileNotFoundError:
            self._file = None
            return
        self._file.seek(0, whence)

    def _show(self, added: bytes) -> None:
        *lines, self._rest = (self._rest + added).split(b"\n")
        for line in lines:
            text = line.decode("utf-8", "replace")
            if _PRINTED in text:
                continue
            print(for_people(text) if self._pretty else text, file=self._output, flush=True)


def for_people(text: str) -> str:
    """A formatted log line: time, level, process, event and fields."""
    try:
        line: dict[str, object] = msgspec.json.decode(text, type=dict[str, object])
        at, level, process, event = (str(line.pop(name)) for name in _FIRST)
    except (msgspec.MsgspecError, KeyError):
        return text
    color = structlog.dev.ConsoleRenderer.get_default_level_styles().get(level, "")
    particulars = "".join(f" {name}={_plain(value)}" for name, value in line.items())
    return f"{at[11:19]} {color}{level:<7}\x1b[0m {process} {event}{particulars}"


def _plain(value: object) -> str:
    """Escaped, so that line feeds and control characters do not reach the terminal."""
    return value if isinstance(value, str) and value.isprintable() else msgspec.json.encode(value).decode()
