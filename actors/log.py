"""Logs: one JSON object a line, in one format from every process, without card numbers or personal data.

Every process appends its lines to ``log/stanchion.jsonl`` in the state folder; the file may be moved away at
any time (logrotate). The supervisor shows the lines at its terminal. Digits that look like a card number (13
to 19 digits with a valid check digit) are masked. Texts of exceptions are left out, because drivers put row
values into them. Repeated lines are written a few times and then counted.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import re
import sys
import time
import traceback
from collections.abc import Callable, MutableMapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

import orjson
import structlog
from structlog.typing import EventDict, Processor

from engine.limits import LOG_FRAMES_MAX, LOG_KINDS_MAX, LOG_REPEATS_MAX, LOG_REPEATS_SECONDS
from engine.pan import luhn_valid

TRACE: Final[ContextVar[str | None]] = ContextVar("trace", default=None)
"""The name of the current request, which is the same in the lines of every process."""

LOG_FILE: Final = "log/stanchion.jsonl"
MASK: Final = "[card number]"
ACT: Final = "act"
"""The event of an administrative act. Its record is the audit log; this line is a copy."""

# Ids are kept whole: groups of a UUID that have digits only could otherwise look like a number with hyphens.
_ID: Final = r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Fa-f])"
_NUMBER: Final = re.compile(rf"(?P<id>{_ID})|(?<![0-9-])[0-9](?:[ -]?[0-9]){{12,18}}(?![0-9-])")


def configure(var_dir: Path, level: str, process: str) -> logging.Handler:
    """Make this process log to the state folder as ``process``; lines below ``level`` are dropped. Returns
    the handler that holds the file open.

    Lines that libraries log through the standard library are included, from ``warning`` on.
    """
    path = var_dir / LOG_FILE
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The file exists from the start, readable by its user only.
    path.touch(mode=0o600)
    handler = logging.handlers.WatchedFileHandler(path, encoding="utf-8", delay=True)
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=processors(process),
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=_ToHandler(handler),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[_FromLibraries()], force=True)
    return handler


def processors(process: str, clock: Callable[[], float] = time.monotonic) -> list[Processor]:
    """The steps from a log call to the text of its line."""
    return [
        structlog.processors.add_log_level,
        add_trace,
        _ProcessName(process),
        drop_exception_texts,
        mask_card_numbers,
        RepeatFilter(clock),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.JSONRenderer(_json),
    ]


def append(var_dir: Path, process: str, event: str, **fields: Any) -> None:
    """Write one line as ``process``, for a command that does not log otherwise. Without a log in ``var_dir``
    (no installation has run there) it writes nothing."""
    path = var_dir / LOG_FILE
    if not path.exists():
        return
    line: Any = {"event": event, **fields}
    for step in processors(process):
        line = step(None, "info", line)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def _json(line: EventDict, **_options: Any) -> str:
    """The line as JSON. orjson refuses large integers and lone surrogates, which the standard library
    writes."""
    try:
        return orjson.dumps(line, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        return json.dumps(line)


def add_trace(_logger: Any, _method: str, line: EventDict) -> EventDict:
    """Add the name of the request, unless the line has one."""
    trace = line.get("trace") or TRACE.get()
    if trace:
        line["trace"] = trace
    return line


def drop_exception_texts(_logger: Any, _method: str, line: EventDict) -> EventDict:
    """Replace an exception by its type and the innermost frames of its traceback."""
    info = line.pop("exc_info", None)
    failure = sys.exc_info()[1] if info is True else info[1] if isinstance(info, tuple) else info
    if isinstance(failure, BaseException):
        frames = traceback.extract_tb(failure.__traceback__)[-LOG_FRAMES_MAX:]
        line["error"] = type(failure).__name__
        line["places"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return line


def mask_card_numbers(_logger: Any, _method: str, line: EventDict) -> EventDict:
    """Mask everything that could be a card number, at any depth of the line."""
    return {name: _masked(value) for name, value in line.items()}


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return _NUMBER.sub(_mask, value)
    if isinstance(value, bool | float) or value is None:
        return value
    if isinstance(value, int):
        text = _masked(str(value))
        return text if text == MASK else value
    if isinstance(value, list | tuple | set | frozenset):
        return [_masked(each) for each in value]
    if isinstance(value, MutableMapping):
        return {_masked(key): _masked(each) for key, each in value.items()}
    return _masked(repr(value))


def _mask(found: re.Match[str]) -> str:
    if found["id"]:
        return found[0]
    digits = found[0].replace(" ", "").replace("-", "")
    return MASK if luhn_valid(digits) else found[0]


class RepeatFilter:
    """Drops repetitions of a line; the next line of its kind has their number in ``repeated``. Lines with the
    field ``every``, which it removes, are all written."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kinds: dict[tuple[str, str], tuple[float, int]] = {}

    def __call__(self, _logger: Any, method: str, line: EventDict) -> EventDict:
        if line.pop("every", False):
            return line
        now = self._clock()
        kind = (method, str(line.get("event")))
        began, count = self._kinds.get(kind, (now, 0))
        if now - began >= LOG_REPEATS_SECONDS:
            if count > LOG_REPEATS_MAX:
                line["repeated"] = count - LOG_REPEATS_MAX
            began, count = now, 0
        if len(self._kinds) >= LOG_KINDS_MAX and kind not in self._kinds:
            self._kinds.clear()
        self._kinds[kind] = (began, count + 1)
        if count >= LOG_REPEATS_MAX:
            raise structlog.DropEvent
        return line


class _ProcessName:
    """Adds the name of the process."""

    def __init__(self, process: str) -> None:
        self._process = process

    def __call__(self, _logger: Any, _method: str, line: EventDict) -> EventDict:
        line["process"] = self._process
        return line


class _ToHandler:
    """A factory of loggers that pass finished lines to ``handler``."""

    def __init__(self, handler: logging.Handler) -> None:
        self._handler = handler

    def __call__(self, *_arguments: Any) -> _ToHandler:
        return self

    def msg(self, text: str) -> None:
        """Write one line."""
        self._handler.handle(logging.LogRecord("stanchion", logging.INFO, "", 0, text, None, None))

    debug = info = warning = error = critical = fatal = failure = exception = log = msg


class _FromLibraries(logging.Handler):
    """Logs records of libraries: only their message template, because the arguments can be values of a
    request."""

    def emit(self, record: logging.LogRecord) -> None:
        template = str(record.msg).partition("\n")[0]
        extra: dict[str, Any] = {"exc_info": record.exc_info} if record.exc_info else {}
        log = structlog.get_logger()
        log.log(record.levelno, "library", library=record.name, message=template, **extra)
