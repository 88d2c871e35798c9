"""Reads lines as they are added to the installation's log, also after logrotate has moved it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from actors.log import LOG_FILE

READ_BYTES: Final = 1 << 20


class LogTail:
    """Call ``lines`` again and again. ``from_start``: with the lines that the file has now; otherwise only
    later ones. ``close`` may be called twice."""

    def __init__(self, var_dir: Path, *, from_start: bool = False) -> None:
        self._path = var_dir / LOG_FILE
        self._file: IO[bytes] | None = None
        self._rest = b""
        self._open(os.SEEK_SET if from_start else os.SEEK_END)

    def lines(self) -> Iterator[str]:
        """The complete lines since the last call, without line feeds."""
        yield from self._added()
        if self._moved():
            self._open(os.SEEK_SET)
            yield from self._added()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _added(self) -> Iterator[str]:
        while self._file is not None and (added := self._file.read(READ_BYTES)):
            *lines, self._rest = (self._rest + added).split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace")

    def _moved(self) -> bool:
        """Whether the log was replaced by another file: it is new, or logrotate has moved it."""
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        return self._file is None or os.fstat(self._file.fileno()).st_ino != there.st_ino

    def _open(self, whence: int) -> None:
        self.close()
        try:
            self._file = self._path.open("rb")
        except FileNotFoundError:
            return
        self._file.seek(0, whence)
