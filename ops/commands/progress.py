"""Progress of long work, on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

UNITS: Final = {"downloading": "bytes", "checks": ""}
"""Units of stages that do not count rows."""


Progress = Callable[[str, int, int | None], None]
"""Shows the progress of one stage: ``done`` of ``total``, or of an unknown total."""


def no_progress(_stage: str, _done: int, _total: int | None) -> None:
    """Shows nothing."""


class Bar:
    """A progress bar on a terminal; elsewhere it prints nothing."""

    WIDTH: Final = 30

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._shown = ""

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if not self._output.isatty():
            return
        share = min(1.0, done / total) if total else 0.0
        filled = "#" * round(share * self.WIDTH)
        line = f"{stage:<12} [{filled:<{self.WIDTH}}] {done:,} {UNITS.get(stage, 'rows')}".rstrip()
        if line != self._shown:
            # Blanks cover the rest of a longer line.
            print(f"\r{line:<{len(self._shown)}}", end="", file=self._output, flush=True)
            self._shown = line

    def close(self) -> None:
        """End the line."""
        if self._shown:
            print(file=self._output)


@contextmanager
def progress_bar(output: TextIO) -> Iterator[Bar]:
    """A bar that ends its line in every case."""
    bar = Bar(output)
    try:
        yield bar
    finally:
        bar.close()
