"""``stanchion demo``: the life of a card on one machine, with a live commentary.

It starts an installation of its own on free ports, uses the public API (and ``kill -9``), and checks every
answer that it shows. The exit status is 0 only if all answers were as expected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console

from actors.settings import Settings
from ops.audit import audit
from ops.demo.checks import DemoError, Json
from ops.demo.fault import kill_the_owner
from ops.demo.outage import Outage
from ops.demo.story import Story
from ops.demo.webhook import Webhook
from ops.supervision.installation import database
from ops.supervision.running_installation import RunningInstallation
from stanchion import Client, StanchionError

__all__ = ["DemoError", "demo"]

# The demo presents its sales itself, at the moment when the commentary mentions them.
SETTINGS: Final = {"STANCHION_AUTO_CLEAR_SECONDS": "0"}


def demo(var_dir: Path | None = None) -> None:
    """Run the demo in ``var_dir``, or in a folder that is removed afterwards. Raises DemoError, RunningError
    or AuditError, each one line, when an answer is not as expected."""
    console = Console(soft_wrap=True, highlight=False)
    story = Story(console)
    with TemporaryDirectory(prefix="stanchion-demo-") as folder:
        state = var_dir or Path(folder) / "var"
        installation = RunningInstallation(state, SETTINGS)
        console.print("[bold]Starting PostgreSQL, Redis, Ray and all processes[/bold] ...")
        with installation as record:
            _serving(console, record)
            _run_chapter(record, story.first_day)
            _fault(console, record, story)
            _run_chapter(record, Outage(console, state).run)
            _run_chapter(record, Webhook(console, state).run)
        console.print("\n[bold]Stopping all processes, and starting them again on the same data[/bold] ...")
        with installation as record:
            _serving(console, record)
            _run_chapter(record, story.second_day)
        _audited(console, state)
    console.print("\n[bold]All answers were as expected.[/bold] `make run` starts an installation for you.")


def _serving(console: Console, record: Json) -> None:
    wire = record["iso8583"]
    console.print(f"  API at {record['base_url']}, ISO 8583 at {wire['host']}:{wire['port']}")


def _run_chapter(record: Json, chapter: Callable[[Client], None]) -> None:
    owner = next(each for each in record["tenants"] if (each["mode"], each["role"]) == ("test", "admin"))
    try:
        with Client(record["base_url"], owner["client_id"], owner["client_secret"]) as api:
            chapter(api)
    except StanchionError as failure:
        raise DemoError(str(failure)) from None


def _fault(console: Console, record: Json, story: Story) -> None:
    console.print("\n[bold]kill -9 for the process that owns the card[/bold]")
    name, pid = kill_the_owner(record["metrics_url"])
    console.print(f"  {name} (process {pid}) is dead; the other host takes its shards over")
    _run_chapter(record, story.after_the_kill)


def _audited(console: Console, state: Path) -> None:
    """Finally, the audit of the whole database."""
    console.print("\n[bold]The books, checked by `stanchion audit` on the stopped installation[/bold]")
    with database(Settings.load(var_dir=state, database_url=None)) as dsn:
        found = asyncio.run(audit(dsn))
    broken = [str(finding) for finding in found if finding.broken]
    if broken:
        raise DemoError(broken[0])
    facts = sum(finding.subjects for finding in found)
    console.print(f"  {len(found)} promises hold for {facts} subjects, for example: {found[0].promise}")
