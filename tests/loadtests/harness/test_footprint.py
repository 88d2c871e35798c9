"""An installation without load, observed through ``/proc``."""

from __future__ import annotations

import os

from loadtests.harness.footprint import footprint
from loadtests.harness.systems import System


async def test_a_footprint_covers_the_processes_of_the_system() -> None:
    mine = os.getpid()
    found = await footprint(System("stanchion", (mine,), {mine: "supervisor"}), 7.5, 0.01)
    assert (found.system, found.ready_seconds) == ("stanchion", 7.5)
    assert found.processes >= 1
    assert found.idle_cpu["supervisor"] >= 0
    assert found.pss_bytes["supervisor"] > 2**20
