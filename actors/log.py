"""Logs: one JSON object a line, one shape from every process, and nothing in them that must not be there.

Every process adds its lines to ``log/stanchion.jsonl`` in the state folder, which may be moved away while it
is written to (logrotate); the supervisor shows them at its terminal. Whatever looks like a card number (13 to
19 digits with a right check digit) is masked, texts of exceptions are left out because drivers put row values
into them, and a line that repeats itself is written a few times and then counted.
"""

from __future__ import annotations

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

import structlog
from structlog.typing import EventDict, Processor

from engine.limits import LOG_FRAMES_MAX, LOG_KINDS_MAX, LOG_REPEATS_MAX, LOG_REPEATS_SECONDS
from engine.pan import luhn_valid

TRACE: Final[ContextVar[str | None]] = ContextVar("trace", default=None)
"""What the request that is being worked on is called in every line, in whichever process."""

LOG_FILE: Final = "log/stanchion.jsonl"
MASK: Final = "[card number]"

# A UUID's groups end or begin with a hyphen, so none of them is taken for a number.
_NUMBER: Final = re.compile(r"(?<![0-9-])[0-9](?:[ -]?[0-9]){12,18}(?![0-9-])")


def configure(var_dir: Path, level: str, process: str) -> logging.Handler:
    """Have this process log to the state folder as ``process``; lines below ``level`` are dropped. Returns
    what holds the file open.

    What libraries log through the standard library goes there too, from ``warning`` on.
    """
    path = var_dir / LOG_FILE
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Where the documentation says it is from the first moment, and for its user alone.
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
    """From what a line is called with to its text."""
    return [
        structlog.processors.add_log_level,
        traced,
        _Named(process),
        without_exception_texts,
        masked,
        Unrepeated(clock),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.JSONRenderer(sort_keys=False, ensure_ascii=False),
    ]


def traced(_logger: Any, _method: str, line: EventDict) -> EventDict:
    """The request's name, unless the line brings its own."""
    trace = line.get("trace") or TRACE.get()
    if trace:
        line["trace"] = trace
    return line


def without_exception_texts(_logger: Any, _method: str, line: EventDict) -> EventDict:
    """An exception is told by its type and by the places it came through."""
    info = line.pop("exc_info", None)
    failure = sys.exc_info()[1] if info is True else info[1] if isinstance(info, tuple) else info
    if isinstance(failure, BaseException):
        frames = traceback.extract_tb(failure.__traceback__)[-LOG_FRAMES_MAX:]
        line["error"] = type(failure).__name__
        line["places"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return line


def masked(_logger: Any, _method: str, line: EventDict) -> EventDict:
    """Whatever could be a card number goes, wherever it stands."""
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
    digits = found[0].replace(" ", "").replace("-", "")
    return MASK if luhn_valid(digits) else found[0]


class Unrepeated:
    """Drops the line that says the same again and again; what was dropped is told by the next of its kind."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kinds: dict[tuple[str, str], tuple[float, int]] = {}

    def __call__(self, _logger: Any, method: str, line: EventDict) -> EventDict:
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


class _Named:
    """Adds the name of the process."""

    def __init__(self, process: str) -> None:
        self._process = process

    def __call__(self, _logger: Any, _method: str, line: EventDict) -> EventDict:
        line["process"] = self._process
        return line


class _ToHandler:
    """A factory of loggers that hand finished lines to ``handler``."""

    def __init__(self, handler: logging.Handler) -> None:
        self._handler = handler

    def __call__(self, *_arguments: Any) -> _ToHandler:
        return self

    def msg(self, text: str) -> None:
        """Write one line."""
        self._handler.handle(logging.LogRecord("stanchion", logging.INFO, "", 0, text, None, None))

    debug = info = warning = error = critical = fatal = failure = exception = log = msg


class _FromLibraries(logging.Handler):
    """What a library logs. Its arguments may be values of a request, so only its template is taken over."""

    def emit(self, record: logging.LogRecord) -> None:
        template = str(record.msg).partition("\n")[0]
        extra: dict[str, Any] = {"exc_info": record.exc_info} if record.exc_info else {}
        log = structlog.get_logger()
        log.log(record.levelno, "library", library=record.name, message=template, **extra)
