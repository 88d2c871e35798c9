"""The choice of an interpreter among fakes that print what the probe would."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ops.packaging.fastest_python import candidates, fastest, measured


class Fakes:
    """Scripts in ``folder`` that answer the probe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, seconds: float, version: tuple[int, int] = (3, 12)) -> str:
        """An interpreter that needs ``seconds`` for the probe."""
        return self.add_script(
            name, f"printf '%s\\n' {version[0]} {version[1]} {seconds} {self.folder / name}"
        )

    def add_script(self, name: str, command: str) -> str:
        """A program of this name."""
        script = self.folder / name
        script.write_text(f"#!/bin/sh\n{command}\n")
        script.chmod(0o755)
        return str(script)


@pytest.fixture
def fakes(tmp_path: Path) -> Fakes:
    return Fakes(tmp_path)


def test_much_faster_interpreter_is_taken(fakes: Fakes) -> None:
    assert fastest([fakes.add("first", 1.0), fakes.add("fast", 0.7), fakes.add("second", 0.8)]).endswith(
        "fast"
    )


def test_first_interpreter_is_kept_if_another_is_hardly_faster(fakes: Fakes) -> None:
    assert fastest([fakes.add("first", 1.0), fakes.add("fast", 0.95)]).endswith("first")


def test_old_or_broken_interpreters_do_not_count(fakes: Fakes) -> None:
    old = fakes.add("old", 0.1, (3, 10))
    broken = fakes.add_script("broken", "exit 1")
    without_answer = fakes.add_script("silent", ":")
    first = fakes.add("first", 1.0)
    assert fastest([old, broken, without_answer, first]) == first
    assert [measured(each) for each in (old, broken, without_answer, "/no/such/file")] == [None] * 4


def test_first_interpreter_is_named_if_none_fits(fakes: Fakes) -> None:
    """``make`` then says which version is needed."""
    old = fakes.add("old", 0.1, (3, 10))
    assert fastest([old]) == old


def test_interpreter_behind_a_script_counts_once(fakes: Fakes) -> None:
    first = fakes.add("first", 1.0)
    assert fastest([first, fakes.add_script("shim", f"exec {first}")]) == first


def test_candidates_start_with_the_running_interpreter(fakes: Fakes) -> None:
    found = candidates(str(fakes.folder))
    assert found[0] == sys.executable
    assert fakes.add("python3.13", 1.0) not in found
    assert fakes.add("python3.13", 1.0) in candidates(str(fakes.folder))


def test_probe_runs_in_this_interpreter() -> None:
    found = measured(os.path.realpath(sys.executable))  # An environment can be without pip.
    assert found is not None
    file, seconds = found
    assert Path(file).exists()
    assert seconds > 0
