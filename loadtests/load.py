"""`make load`: start an installation, issue cards, run Locust against it, audit the books, stop.

Locust runs in an environment of its own (`.venv-load`), without its web page. It writes its figures as CSV
and HTML to the folder of ``--report``.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from loadtests.generators.http import Api, HttpError
from loadtests.generators.rest import issue_cards
from loadtests.generators.workload import Card
from loadtests.harness.children import ChildError, Helper, Installation
from loadtests.harness.front import ray_address
from loadtests.harness.stopping import run_until_stopped, stoppable
from loadtests.users.plan import LoadPlan, write_plan

ROOT: Final = Path(__file__).parents[1]
LOCUST: Final = ROOT / ".venv-load/bin/locust"
LOCUSTFILES: Final = f"{ROOT / 'loadtests/locustfile.py'},{ROOT / 'loadtests/shaped.py'}"
CONNECTIONS: Final = 16


def arguments() -> tuple[argparse.Namespace, list[str]]:
    """The command line; unknown options are passed to Locust."""
    parser = argparse.ArgumentParser(
        prog="make load",
        description="Load an installation of its own with Locust.",
        epilog="Options of the run itself (--shape, --seconds, --most-users, --draw, --only, thresholds) are"
        " those of loadtests/locustfile.py and loadtests/shaped.py.",
    )
    parser.add_argument("--cards", type=int, default=1_000, help="cards to draw from [%(default)s]")
    parser.add_argument("--report", type=Path, default=ROOT / "var/load", help="folder [var/load]")
    return parser.parse_known_args()


async def load(cards: int, report: Path, options: list[str], folder: Path) -> int:
    """Run the load test; returns Locust's exit status, or 1 when the audit fails. Raises ChildError and
    HttpError."""
    async with AsyncExitStack() as stack:
        ray = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        installation = Installation(folder / "var", ray)
        stack.push_async_callback(installation.stop)
        _say(f"Starting an installation and issuing {cards} cards ...")
        record = await installation.start()
        plan = await _plan(record, cards, folder, ray, installation.pid)
        write_plan(plan, folder / "plan.json")
        status = await _locust(folder / "plan.json", report, options)
        books = await _run(sys.executable, "-m", "ops", "audit", "--var", str(folder / "var"))
    return status or books


async def _plan(
    record: dict[str, object], cards: int, folder: Path, ray: dict[str, str], pid: int
) -> LoadPlan:
    """Issue funded cards and read their numbers with the installation's own keys."""
    run = msgspec.convert(record, _Run)
    client = next(each for each in run.tenants if (each.mode, each.role) == ("test", "admin"))
    api = Api(run.base_url, CONNECTIONS)
    await api.open({"client_id": client.client_id, "client_secret": client.client_secret})
    ids = await issue_cards(api, cards)
    await api.close()
    helper = Helper(ray, "ops.bench.inside", str(folder / "var"), ray_address(pid))
    with (folder / "helper.log").open("ab") as errors:
        await helper.start(errors)
        found = msgspec.convert(await helper.ask("cards", card_ids=ids), list[Card])
        await helper.stop()
    return LoadPlan(
        base_url=run.base_url,
        client_id=client.client_id,
        client_secret=client.client_secret,
        iso8583_host=run.iso8583.host,
        iso8583_port=run.iso8583.port,
        card_ids=ids,
        cards=found,
    )


class _Address(msgspec.Struct):
    host: str
    port: int


class _Tenant(msgspec.Struct):
    mode: str
    role: str
    client_id: str
    client_secret: str


class _Run(msgspec.Struct):
    """The members of ``run.json`` that a load test needs."""

    base_url: str
    iso8583: _Address
    tenants: list[_Tenant]


async def _locust(plan: Path, report: Path, options: list[str]) -> int:
    return await _run(
        str(LOCUST),
        *("-f", LOCUSTFILES, "--headless", "--only-summary", "--plan", str(plan)),
        *("--csv", str(report / "load"), "--html", str(report / "load.html"), *options),
    )


async def _run(*command: str) -> int:
    """Run a process on this terminal; returns its exit status."""
    path = os.pathsep.join((str(ROOT), str(ROOT / "api/client")))
    process = await asyncio.create_subprocess_exec(*command, env={**os.environ, "PYTHONPATH": path})
    return await process.wait()


def main() -> None:
    """Entry point of the command."""
    ours, options = arguments()
    ours.report.mkdir(parents=True, exist_ok=True)
    with stoppable("load"), TemporaryDirectory(prefix="stanchion-load-") as folder:
        try:
            status = run_until_stopped(load(ours.cards, ours.report, options, Path(folder)))
        except (ChildError, HttpError) as failure:
            raise SystemExit(f"load: {failure}") from None
    _say(f"The figures are in {ours.report}.")
    raise SystemExit(status)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
