"""The installation's log at its terminal: for a person where one looks on, else as it is, for collectors.

The supervisor's own start and stop are in the log alone: it prints them itself.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import IO, Final

import msgspec
import structlog

from actors.log import LOG_FILE

LOOK_SECONDS: Final = 0.25
_PRINTED: Final = '"level": "info", "process": "supervisor"'
"""In lines that say what the supervisor prints itself."""
_FIRST: Final = ("at", "level", "process", "event")


class LogView:
    """Shows lines from the moment of ``start`` on. ``stop`` shows the last ones; twice is harmless."""

    def __init__(self, var_dir: Path, output: IO[str]) -> None:
        self._path = var_dir / LOG_FILE
        self._output = output
        self._pretty = output.isatty()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._file: IO[bytes] | None = None
        self._rest = b""

    def start(self) -> None:
        """Show what is added from now on."""
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
        while not self._stopping.wait(LOOK_SECONDS):
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
        """Whether another file has the name now: the log is new, or was moved away by logrotate."""
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
    """A line of the log as a person reads it: time, level, process, what happened, and its particulars."""
    try:
        line: dict[str, object] = msgspec.json.decode(text, type=dict[str, object])
        at, level, process, event = (str(line.pop(name)) for name in _FIRST)
    except (msgspec.MsgspecError, KeyError):
        return text
    color = structlog.dev.ConsoleRenderer.get_default_level_styles().get(level, "")
    particulars = "".join(f" {name}={_plain(value)}" for name, value in line.items())
    return f"{at[11:19]} {color}{level:<7}\x1b[0m {process} {event}{particulars}"


def _plain(value: object) -> str:
    """Line feeds and control characters of a value must not reach the terminal."""
    return value if isinstance(value, str) and value.isprintable() else msgspec.json.encode(value).decode()
