"""``stanchion logs``: the installation's log on this machine, filtered, and followed while it grows."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from actors.log import LOG_FILE
from ops.supervision.log_tail import LogTail

POLL_SECONDS: Final = 0.25
LEVELS: Final = ("debug", "info", "warning", "error")

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class LogsError(Exception):
    """The log cannot be read. The message is one line."""


class LogFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The lines to show; ``None`` stands for all."""

    level: str = "debug"
    """The lowest level."""
    process: str | None = None
    """Name of a process, or its beginning up to a hyphen: ``api`` for ``api-0``."""
    event: str | None = None

    def shows(self, text: str) -> bool:
        """Whether it shows this line. A line that is no JSON object has the level ``error``."""
        try:
            line = _decode(text)
        except msgspec.MsgspecError:
            line = {"level": "error"}
        process = str(line.get("process", ""))
        return (
            _number(str(line.get("level"))) >= _number(self.level)
            and self.process in (None, process, process.partition("-")[0])
            and self.event in (None, line.get("event"))
        )


def logs(
    var_dir: Path,
    wanted: LogFilter,
    *,
    last: int,
    follow: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """The ``last`` lines that ``wanted`` shows, oldest first, and if ``follow`` later ones without an end.
    Raises LogsError if there is no log and ``follow`` is not set."""
    if not follow and not (var_dir / LOG_FILE).exists():
        raise LogsError(f"there is no log in {var_dir}: no installation has run there")
    tail = LogTail(var_dir, from_start=True)
    try:
        yield from deque(filter(wanted.shows, tail.lines()), maxlen=last)
        while follow:
            yield from filter(wanted.shows, tail.lines())
            sleep(POLL_SECONDS)
    finally:
        tail.close()


def _number(level: str) -> int:
    """The order of a level; that of an unknown one is the order of ``error``."""
    return logging.getLevelNamesMapping().get(level.upper(), logging.ERROR)
