"""A short run of Locust against the installation, if `make load` has installed Locust."""

from __future__ import annotations

import asyncio
import csv
import os
from pathlib import Path
from typing import Final

from loadtests.generators.workload import Card
from loadtests.load import LOCUST, ROOT
from loadtests.users.plan import LoadPlan, write_plan
from tests.support.api.driver import Caller
from tests.support.integration.stack import Stack

REST_AND_WIRE: Final = {"POST /v1/simulated-spends", "spend"}


async def plan_of(stack: Stack, demo: Caller) -> LoadPlan:
    """Two cards with money."""
    cards = [await demo.funded_card("100000.00") for _ in range(2)]
    plastics = await stack.card_data(*cards)
    return LoadPlan(
        base_url=stack.record["base_url"],
        client_id=demo.credentials.client_id,
        client_secret=demo.credentials.client_secret,
        iso8583_host=stack.record["iso8583"]["host"],
        iso8583_port=stack.record["iso8583"]["port"],
        cards=[Card(id_, each["pan"], each["expiry"]) for id_, each in plastics.items()],
    )


async def locust(folder: Path, *options: str) -> tuple[int, str]:
    """Exit status and output of a short run."""
    path = os.pathsep.join((str(ROOT), str(ROOT / "api/client")))
    process = await asyncio.create_subprocess_exec(
        *(str(LOCUST), "-f", str(ROOT / "loadtests/locustfile.py"), "--headless", "--only-summary"),
        *(
            "--plan",
            str(folder / "plan.json"),
            "--csv",
            str(folder / "load"),
            "--html",
            str(folder / "load.html"),
        ),
        *("--seconds", "2", "--most-users", "4", "--p95-ms", "20000", *options),
        env={**os.environ, "PYTHONPATH": path},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode is not None
    return process.returncode, output.decode()


if LOCUST.exists():

    async def test_rest_and_wire_users_are_served(stack: Stack, demo: Caller, tmp_path: Path) -> None:
        write_plan(await plan_of(stack, demo), tmp_path / "plan.json")
        status, output = await locust(tmp_path, "--p99-ms", "20000")
        assert status == 0, output
        with (tmp_path / "load_stats.csv").open() as file:
            rows = {row["Name"]: row for row in csv.DictReader(file)}
        assert rows.keys() >= REST_AND_WIRE
        assert rows["Aggregated"]["Failure Count"] == "0"
        assert (tmp_path / "load.html").stat().st_size > 10_000

    async def test_missed_threshold_sets_the_exit_status(stack: Stack, demo: Caller, tmp_path: Path) -> None:
        write_plan(await plan_of(stack, demo), tmp_path / "plan.json")
        status, output = await locust(tmp_path, "--p99-ms", "0.01", "--only", "wire", "--draw", "zipf")
        assert status == 1
        assert "load: p99 is " in output
