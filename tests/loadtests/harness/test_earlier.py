"""An installation of an earlier commit that fails to start; ``tests/integration`` starts one."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from loadtests.harness.checkout import Checkout, Commit
from loadtests.harness.children import ChildError, Version
from loadtests.harness.earlier import EarlierServers


async def test_an_installation_that_does_not_start_names_its_commit(tmp_path: Path) -> None:
    script = "import os; raise SystemExit(f'stanchion: no room in {os.getcwd()} for {os.environ[\"MARK\"]}')"
    version = Version((sys.executable, "-c", script), tmp_path, {"MARK": "ten"})
    commit = Commit("0" * 40, "0000000", "2026-01-01", "test: broken")
    earlier = EarlierServers(tmp_path, Checkout(commit, version, False), {})
    expected = f"^0000000: the installation did not start: stanchion: no room in {tmp_path} for ten$"
    with (tmp_path / "errors.log").open("wb") as errors:
        async with AsyncExitStack() as stack:
            with pytest.raises(ChildError, match=expected):
                await earlier.start(stack, 1, errors)
