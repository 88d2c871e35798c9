"""A short run of Locust against the installation, if `make load` has installed Locust."""

from __future__ import annotations

import asyncio
import csv
import os
import re
from pathlib import Path
from typing import Any, Final

import asyncpg
import httpx2

from actors.vault import Vault
from engine.scopes import REVEAL, default_scopes
from loadtests.generators.workload import Card
from loadtests.load import LOCUST, LOCUSTFILES, ROOT
from loadtests.users.plan import LoadPlan, write_plan
from ops.database.clients import ClientCredentials, create_client
from ops.embedded.ports import free_port
from ops.supervision.installation import database
from tests.support.api.driver import Caller
from tests.support.integration.stack import Stack

REST_AND_WIRE: Final = {"POST /v1/simulated-spends", "decision", "spend"}
PAGE_SECONDS_MAX: Final = 120.0
RUN_SECONDS_MAX: Final = 240.0


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
        card_ids=list(plastics),
        cards=[Card(id_, each["pan"], each["expiry"]) for id_, each in plastics.items()],
    )


async def locust(folder: Path, *options: str) -> tuple[int, str]:
    """Exit status and output of a short run."""
    path = os.pathsep.join((str(ROOT), str(ROOT / "api/client")))
    process = await asyncio.create_subprocess_exec(
        *(str(LOCUST), "-f", LOCUSTFILES, "--headless", "--only-summary"),
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
    output, _ = await asyncio.wait_for(process.communicate(), RUN_SECONDS_MAX)
    assert process.returncode is not None
    return process.returncode, output.decode()


async def started(*options: str) -> asyncio.subprocess.Process:
    """Locust as a user starts it: without a plan, and without the module path of the tests."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return await asyncio.create_subprocess_exec(
        *(str(LOCUST), "-f", str(ROOT / "loadtests/locustfile.py"), *options),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


async def page_of(http: httpx2.AsyncClient) -> httpx2.Response:
    """Locust's page, once it listens."""
    async with asyncio.timeout(PAGE_SECONDS_MAX):
        while True:
            try:
                return await http.get("/")
            except httpx2.ConnectError:
                await asyncio.sleep(0.1)


async def stats_with(http: httpx2.AsyncClient, name: str) -> list[Any]:
    """The rows of the run, once there is one of this name."""
    async with asyncio.timeout(PAGE_SECONDS_MAX):
        while True:
            rows: list[Any] = (await http.get("/stats/requests")).json()["stats"]
            if name in {each["name"] for each in rows}:
                return rows
            await asyncio.sleep(0.1)


async def revealing_client(stack: Stack) -> ClientCredentials:
    """A new client that may show card numbers."""
    settings = stack.settings
    with database(settings) as dsn:
        connection = await asyncpg.connect(dsn)
        try:
            return await create_client(
                connection,
                Vault.from_settings(settings, make=False),
                tenant="load",
                mode="test",
                role="admin",
                operator="test",
                scopes=(*default_scopes("admin"), REVEAL),
            )
        finally:
            await connection.close()


def edge_of(stack: Stack) -> str:
    wire = stack.record["iso8583"]
    return f"{wire['host']}:{wire['port']}"


if LOCUST.exists():

    async def test_own_cards_are_issued_and_the_wire_is_used(stack: Stack) -> None:
        client = await revealing_client(stack)
        process = await started(
            *("--headless", "--only-summary", "-u", "4", "-r", "4", "-t", "8s"),
            *("--host", stack.record["base_url"], "--edge", edge_of(stack)),
            *("--client-id", client.client_id, "--client-secret", client.client_secret),
            *("--cards", "3", "--wire-cards", "2", "--p95-ms", "20000", "--p99-ms", "20000"),
        )
        output = (await asyncio.wait_for(process.communicate(), RUN_SECONDS_MAX))[0].decode()
        assert process.returncode == 0, output
        assert re.search(r"^REST +decision ", output, re.MULTILINE)
        assert re.search(r"^WIRE +spend ", output, re.MULTILINE)
        assert client.client_secret not in output

    async def test_without_reveal_all_users_speak_rest(stack: Stack, demo: Caller) -> None:
        process = await started(
            *("--headless", "--only-summary", "-u", "2", "-r", "4", "-t", "6s", "--cards", "2"),
            *("--host", stack.record["base_url"], "--edge", edge_of(stack)),
            *("--client-id", demo.credentials.client_id, "--client-secret", demo.credentials.client_secret),
            *("--p95-ms", "20000", "--p99-ms", "20000"),
        )
        output = (await asyncio.wait_for(process.communicate(), RUN_SECONDS_MAX))[0].decode()
        assert process.returncode == 0, output
        assert "load: the client lacks cards:reveal, so all users speak REST" in output
        assert "WIRE" not in output

    async def test_wrong_credentials_are_one_line(stack: Stack) -> None:
        process = await started(
            *("--headless", "--only-summary", "-u", "1", "-t", "9s", "--host", stack.record["base_url"]),
            *("--client-id", "cl_test_none", "--client-secret", "none"),
        )
        output = (await asyncio.wait_for(process.communicate(), RUN_SECONDS_MAX))[0].decode()
        assert process.returncode == 1
        assert "load: 401 " in output
        assert "Traceback" not in output

    async def test_page_of_locust_opens_and_starts_a_run(stack: Stack, demo: Caller) -> None:
        port = free_port()
        process = await started("--web-host", "127.0.0.1", "--web-port", str(port))
        try:
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http:
                page = await page_of(http)
                assert (page.status_code, "client_secret" in page.text) == (200, True)
                run = {
                    "user_count": "2",
                    "spawn_rate": "2",
                    "host": stack.record["base_url"],
                    "client_id": demo.credentials.client_id,
                    "client_secret": demo.credentials.client_secret,
                    "cards": "2",
                    "edge": "",
                }
                assert (await http.post("/swarm", data=run)).json()["success"]
                rows = await stats_with(http, "decision")
                assert {each["num_failures"] for each in rows} == {0}
        finally:
            process.terminate()
            await process.communicate()

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
