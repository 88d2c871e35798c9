"""A tiny run of the benchmark on an installation that stands for that of an earlier commit."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from loadtests.figures import Slice
from loadtests.generators.rest import held_minor
from loadtests.generators.wire import WireLoad
from loadtests.generators.workload import AMOUNT_MINOR
from loadtests.harness.checkout import PACKAGE_FOLDERS, ROOT, Checkout, Commit
from loadtests.harness.children import Version
from loadtests.harness.earlier import EarlierServers
from loadtests.harness.slices import measure
from loadtests.storage import stored

CARDS: Final = 5
DECISIONS: Final = 300
SECONDS_MAX: Final = 240.0
TABLES: Final = ("journal_rows", "event_rows", "transaction_rows", "holds")


def checkout() -> Checkout:
    """The present code, run as that of another commit is."""
    path = ":".join(str(ROOT / folder) for folder in PACKAGE_FOLDERS)
    version = Version((sys.executable, "-P", "-m"), ROOT, {"PYTHONPATH": path})
    return Checkout(Commit("0" * 40, "0000000", "2026-01-01", "test: the present code"), version, False)


async def test_another_installation_is_measured_through_its_public_interfaces(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        errors = stack.enter_context((tmp_path / "errors.log").open("wb"))
        earlier = EarlierServers(tmp_path, checkout(), {})
        await earlier.start(stack, CARDS, errors)
        assert earlier.system.name == "0000000"
        assert {"hosts", "edge", "coordinator", "supervisor"} <= set(earlier.system.labels.values())

        found = await undisturbed(earlier)
        assert_measured(found)
        written = await stored("0000000", earlier, earlier.system, DECISIONS)
        assert {table: written.rows[table] / written.decisions for table in TABLES} == {
            "journal_rows": 1,
            "event_rows": 1,
            "transaction_rows": 1,
            "holds": 1,
        }
        assert 0 <= written.page_image_bytes < written.log_bytes
        held = await held_minor(earlier.api, earlier.card_ids)
        assert held // AMOUNT_MINOR >= found.approved + written.decisions


async def undisturbed(earlier: EarlierServers) -> Slice:
    """A slice in which every purchase was approved in time; on a busy machine, not every slice is one."""
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            load = WireLoad([earlier.edge], earlier.cards, connections=1, in_flight=8)
            found = await measure("wire", earlier.system, load, warm_seconds=0.2, seconds=0.5)
            if (found.refused, found.lost) == (0, 0):
                return found


def assert_measured(found: Slice) -> None:
    """A slice has decisions and the bytes that they wrote, and no decision failed."""
    assert found.approved > 0
    assert (found.refused, found.lost) == (0, 0)
    assert found.decided == found.approved
    assert found.tables["journal_rows"].row_bytes > 0
    assert found.wal_bytes is not None
    assert found.server_parts_us.keys() >= {"hosts", "edge", "postgres backends"}
