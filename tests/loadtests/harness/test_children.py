"""Helper processes and their pipe, from both ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loadtests.harness.children import ChildError, Helper, Installation, one_line
from tests.support.ops.waiting import gone

HELPER = """
import asyncio, sys
from ops.bench.pipe import serve

async def double(number):
    print("a library that talks")
    return 2 * number

async def shout(text):
    return text.upper()

asyncio.run(serve({"double": double, "shout": shout}))
"""


@pytest.fixture
async def helper(tmp_path: Path) -> AsyncIterator[Helper]:
    """A process that serves two requests."""
    (tmp_path / "bench_helper.py").write_text(HELPER)
    made = Helper({"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}, "bench_helper")
    with (tmp_path / "errors.log").open("wb") as errors:
        await made.start(errors)
        yield made
        await made.stop()


async def test_output_of_a_library_does_not_disturb_answers(helper: Helper) -> None:
    assert await helper.ask("double", number=21) == 42
    assert await helper.ask("shout", text="héllo") == "HÉLLO"


async def test_long_lines_pass(helper: Helper) -> None:
    text = "x" * 1_000_000
    assert await helper.ask("shout", text=text) == text.upper()


async def test_a_failure_is_named_and_the_helper_continues(helper: Helper) -> None:
    with pytest.raises(ChildError, match="bench_helper: double: TypeError"):
        await helper.ask("double", wrong=1)
    with pytest.raises(ChildError, match="KeyError"):
        await helper.ask("unknown")
    assert await helper.ask("double", number=1) == 2


async def test_a_helper_ends_with_its_pipe(helper: Helper) -> None:
    pid = helper.pid
    await helper.stop()
    await helper.stop()
    assert gone(pid)


async def test_a_helper_that_has_ended_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bench_dead.py").write_text("raise SystemExit(3)")
    dead = Helper({"PYTHONPATH": str(tmp_path)}, "bench_dead")
    with (tmp_path / "errors.log").open("wb") as errors:
        await dead.start(errors)
        with pytest.raises(ChildError, match="bench_dead ended while it was asked anything"):
            await dead.ask("anything")
        await dead.stop()


async def test_an_installation_that_cannot_start_gives_the_reason(tmp_path: Path) -> None:
    (tmp_path / "var").write_text("not a folder")
    installation = Installation(tmp_path / "var", {})
    with pytest.raises(ChildError, match="the installation did not start: stanchion: "):
        await asyncio.wait_for(installation.start(), 60)
    await installation.stop()


def test_an_error_names_its_first_cause() -> None:
    def fail(first: Exception) -> ChildError:
        try:
            try:
                raise first
            finally:
                raise ChildError("it did not end")
        except ChildError as failure:
            return failure

    assert one_line(fail(ChildError("it did not start"))) == "it did not end (after: it did not start)"
    assert one_line(fail(TimeoutError())) == "it did not end (after: TimeoutError)"
    assert one_line(ChildError("alone")) == "alone"
