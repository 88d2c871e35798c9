"""Progress of long work: a bar on a terminal, and nothing elsewhere."""

from __future__ import annotations

import io

import pytest

from ops.commands.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bar_is_for_terminals_only() -> None:
    for output, shown in ((io.StringIO(), ""), (Terminal(), f"\rwriting      [{'#' * 15:<30}] 50 rows\n")):
        with progress_bar(output) as bar:
            bar("writing", 50, 100)
            bar("writing", 50, 100)
        assert output.getvalue() == shown


def test_bar_of_an_unknown_total_counts() -> None:
    output = Terminal()
    with progress_bar(output) as bar:
        bar("resealing", 1_200, None)
    assert output.getvalue() == f"\rresealing    [{'':<30}] 1,200 rows\n"


def test_shorter_line_covers_a_longer_one() -> None:
    output = Terminal()
    with progress_bar(output) as bar:
        bar("a stage with a long name", 1, 1)
        bar("b", 1, 1)
    longer, shorter = output.getvalue().removeprefix("\r").removesuffix("\n").split("\r")
    assert len(shorter) == len(longer)


def test_failure_ends_the_line() -> None:
    output = Terminal()

    def fail() -> None:
        with progress_bar(output) as bar:
            bar("checks", 1, 2)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert output.getvalue().endswith("\n")
