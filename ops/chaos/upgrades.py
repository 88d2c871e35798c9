"""The drill of an upgrade under load: an earlier release runs, and everything is replaced by this one, back,
and forward again. No message and no request may be refused.

    python -m ops.chaos.upgrades [--before COMMIT] [--folder DIR] [--cards 12]

The earlier releases come from the repository's history and use this environment's libraries. A symbolic link
plays the installed package: ``stanchion restart`` starts processes from the release to which it points, while
the supervisor and Ray are those of the first start, as OPERATING.md describes for one machine.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final

import asyncpg
import structlog

from ops.audit import Finding, audit
from ops.chaos.environment.base import Environment
from ops.chaos.environment.processes import pids_by_role
from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.fault import ANSWER_SECONDS_MAX, Fault, Outcome
from ops.chaos.report import ChaosReport
from ops.chaos.traffic.api_user import ApiUser
from ops.chaos.traffic.issuing import new_cards, plastics
from ops.chaos.traffic.shoppers import Crowd
from ops.database.migrate import load_migrations
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.redis import EmbeddedRedis
from ops.histories.check import check
from ops.supervision.running_installation import RunningInstallation
from stanchion import Client

ROOT: Final = Path(__file__).parents[2]
FIRST: Final = "ab2f3c0"
"""The commit of release 0.1.0."""
RELEASES: Final = (FIRST, "6501a43")
"""Commits of the earlier releases: the first, and the last one before upgrades were drilled."""
FUNDS: Final = "5000000.00"
COMMAND_SECONDS_MAX: Final = 600.0
PAUSE_SECONDS: Final = 3.0
REFUSALS: Final = frozenset({"91", "96", "timeout"})
_NEWER: Final = "use newer code"
"""Part of the message with which an old release refuses a database that has been upgraded for good."""


class Releases:
    """Code of several releases in ``folder``, and the link to the installed one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.link = folder / "installed"

    def unpack(self, commit: str) -> Path:
        """The tree of ``commit``. Raises NotInjectedError without the repository's history."""
        tree = self._folder / commit
        tree.mkdir(parents=True)
        packed = subprocess.run(["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=False)
        if packed.returncode != 0:
            raise NotInjectedError(f"the repository has no commit {commit}")
        subprocess.run(["tar", "-x", "-C", str(tree)], input=packed.stdout, check=True)
        return tree

    def install(self, tree: Path) -> None:
        """Let the link point to ``tree``."""
        new = self.link.with_name("next")
        new.unlink(missing_ok=True)
        new.symlink_to(tree, target_is_directory=True)
        new.replace(self.link)

    def environment(self) -> dict[str, str]:
        """Variables with which Python finds the installed release, and nothing in the current folder."""
        return {"PYTHONPATH": f"{self.link}:{self.link}/api/client", "PYTHONSAFEPATH": "1"}


class UpgradeRig(Environment):
    """An async context manager: an installation of the release of ``commit``, and its load. Enter it in the
    thread in which PostgreSQL and Redis shall live."""

    def __init__(self, folder: Path, commit: str, cards: int, seed: int) -> None:
        super().__init__()
        self._folder = folder
        self.commit = commit
        self._cards = cards
        self._seed = seed
        self.releases = Releases(folder / "releases")
        self.postgres = EmbeddedPostgres(folder / "servers")
        self._redis = EmbeddedRedis(folder / "servers")
        self._var_dir = folder / "var"
        self._settings: dict[str, str] = {}
        self.installation: RunningInstallation
        self.record: dict[str, Any] = {}
        self.crowd: Crowd
        self.user: ApiUser
        self.old: Path

    async def _set_up(self) -> None:
        self.old = await asyncio.to_thread(self.releases.unpack, self.commit)
        self.releases.install(self.old)
        for server in (self.postgres, self._redis):
            server.start()
            self._stack.callback(server.stop)
        self._settings = {
            "STANCHION_DATABASE_URL": self.postgres.url,
            "STANCHION_REDIS_URL": self._redis.url,
            # Shoppers send their presentments themselves.
            "STANCHION_AUTO_CLEAR_SECONDS": "0",
        }
        up = ("up", "--ports", "auto", "--var", str(self._var_dir))
        self.installation = RunningInstallation(
            self._var_dir, self._settings | self.releases.environment(), command=self._command(*up)
        )
        self._stack.push_async_callback(asyncio.to_thread, self.installation.stop)
        self.record = await asyncio.to_thread(self.installation.start)
        await self._create_users()

    async def _create_users(self) -> None:
        issued = await asyncio.to_thread(self._issue)
        connection = await asyncpg.connect(self.postgres.url)
        try:
            cards = await plastics(connection, self._var_dir, issued[1:])
        finally:
            await connection.close(timeout=10)
        wire = self.record["iso8583"]
        self.crowd = Crowd((wire["host"], wire["port"]), cards, self._seed)
        self._stack.push_async_callback(self.crowd.close)
        await self.crowd.open()
        self.user = ApiUser(self._client(), issued[0])
        self._stack.push_async_callback(self.user.end)

    def _client(self) -> Client:
        owner = next(
            each for each in self.record["tenants"] if (each["mode"], each["role"]) == ("test", "admin")
        )
        return Client(self.record["base_url"], owner["client_id"], owner["client_secret"])

    def _issue(self) -> list[str]:
        with self._client() as api:
            programme = api.programs.create(name="Upgrade", currency="EUR")["id"]
            return new_cards(api, programme, self._cards + 1, funds=FUNDS)

    def _command(self, *arguments: str) -> tuple[str, ...]:
        """The installed release's ``stanchion`` command, in a folder without any code: Ray makes the current
        folder part of the module path."""
        self._folder.mkdir(parents=True, exist_ok=True)
        script = f'cd "{self._folder}" && exec "$0" -m ops "$@"'
        return ("bash", "-euc", script, sys.executable, *arguments)

    async def stanchion(self, *arguments: str) -> tuple[int, str]:
        """Run a command of the installed release; returns its status and output."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("STANCHION_")}
        process = await asyncio.create_subprocess_exec(
            *self._command(*arguments, "--var", str(self._var_dir)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=inherited | self._settings | self.releases.environment(),
        )
        async with asyncio.timeout(COMMAND_SECONDS_MAX):
            output, _ = await process.communicate()
        return process.returncode or 0, output.decode("utf-8", "replace").strip()

    async def done(self, *arguments: str) -> str:
        """Run a command that must succeed; returns its output. Raises RuntimeError."""
        status, output = await self.stanchion(*arguments)
        if status != 0:
            raise RuntimeError(f"stanchion {' '.join(arguments)}: {output.splitlines()[-1:]}")
        return output

    async def pids(self) -> dict[str, int]:
        """The process ids of all processes, hosts included."""
        return await asyncio.to_thread(pids_by_role, self.record["metrics_url"])

    async def leave(self) -> None:
        """End the load. May be called twice."""
        await self.user.end()
        await self.crowd.end()

    async def start_again(self) -> None:
        """Stop and start the installation, with the supervisor and Ray."""
        await asyncio.to_thread(self.installation.stop)
        self.record = await asyncio.to_thread(self.installation.start)

    async def findings(self) -> list[Finding]:
        """The findings of the history and of the audit by this release."""
        connection = await asyncpg.connect(self.postgres.url)
        try:
            history = await check(connection, self.crowd.history.operations)
        finally:
            await connection.close(timeout=10)
        return [*history, *await audit(self.postgres.url)]


Step = Callable[[UpgradeRig], Awaitable[Outcome]]


def _expect_nothing_refused(rig: UpgradeRig, began: float, requests: int, outcome: Outcome) -> None:
    answered = [each for each in rig.crowd.history.since(began) if each.ended is not None]
    if not answered or rig.user.done == requests:
        raise NotInjectedError("no message or no request was sent")
    refusals = [each for each in answered if (each.response_code or "") in REFUSALS]
    refused = rig.crowd.history.unanswered_before(began, refusals)
    slowest = max((each.ended or 0.0) - each.began for each in answered)
    outcome.figure = float(len(refused) + len(rig.user.refused))
    outcome.expect(not refused, f"{len(refused)} of {len(answered)} messages were refused")
    outcome.expect(not rig.user.refused, f"requests were refused: {rig.user.refused[:3]}")
    outcome.expect(slowest <= ANSWER_SECONDS_MAX, f"the slowest answer took {slowest:.2f} s")
    codes = dict(Counter(each.response_code or "none" for each in answered))
    print(f"         {len(answered)} messages, slowest {slowest:.2f} s, {codes}", flush=True)
    print(f"         {rig.user.done} requests, slowest {rig.user.slowest_seconds:.2f} s", flush=True)
    rig.user.refused.clear()


async def migrate(rig: UpgradeRig) -> Outcome:
    """``stanchion migrate --before`` of this release, while the earlier one serves."""
    began, requests, outcome = time.monotonic(), rig.user.done, Outcome(0.0)
    rig.releases.install(ROOT)
    print(f"         {await rig.done('migrate', '--before')}".replace("\n", "\n         "), flush=True)
    rig.releases.install(rig.old)
    await asyncio.sleep(PAUSE_SECONDS)
    _expect_nothing_refused(rig, began, requests, outcome)
    return outcome


async def _replaced(rig: UpgradeRig, tree: Path) -> Outcome:
    """Install ``tree``, and restart every process."""
    before, began, requests = await rig.pids(), time.monotonic(), rig.user.done
    rig.releases.install(tree)
    output = await rig.done("restart")
    print(f"         {output}".replace("\n", "\n         "), flush=True)
    await asyncio.sleep(PAUSE_SECONDS)
    outcome = Outcome(0.0)
    kept = set(before.values()) & set((await rig.pids()).values()) - {rig.installation.pid}
    outcome.expect(not kept, f"{len(kept)} processes were not replaced")
    _expect_nothing_refused(rig, began, requests, outcome)
    return outcome


async def forward(rig: UpgradeRig) -> Outcome:
    """Every process is replaced by one of this release."""
    return await _replaced(rig, ROOT)


async def back(rig: UpgradeRig) -> Outcome:
    """Every process is replaced by one of the earlier release."""
    return await _replaced(rig, rig.old)


async def finish(rig: UpgradeRig) -> Outcome:
    """The supervisor and Ray of the earlier release end, the last migrations are applied, and this release
    starts. Afterwards the earlier release refuses the database, unless it has the same migrations."""
    outcome = Outcome(0.0)
    await rig.leave()
    await rig.start_again()
    await rig.done("migrate")
    rig.releases.install(rig.old)
    status, output = await rig.stanchion("migrate")
    rig.releases.install(ROOT)
    same = migrations_of(rig.old) == migrations_of(ROOT)
    held = status == 0 if same else status != 0 and _NEWER in output
    outcome.expect(held, f"the earlier release says: {output}")
    return outcome


def migrations_of(tree: Path) -> list[int]:
    """The numbers of the migrations of a release's tree."""
    return [migration.version for migration in load_migrations(tree / "ops/migrations")]


_UNIT: Final = "messages and requests refused"
STEPS: Final[tuple[tuple[str, Step], ...]] = (
    ("migrated for this release", migrate),
    ("all processes replaced by this release", forward),
    ("all processes replaced by the earlier release", back),
    ("all processes replaced by this release again", forward),
    ("this release started, the earlier one refused", finish),
)


def fault_of(commit: str, step: str) -> Fault:
    """The row of a step in the report."""
    return Fault("G3", f"upgrade from {commit}: {step}", _UNIT, 0.0)


FAULTS: Final = tuple(fault_of(commit, step) for commit in RELEASES for step, _ in STEPS)


async def run(folder: Path, cards: int, seed: int, report: ChaosReport, commits: Iterable[str]) -> None:
    """Drill the upgrade from each of ``commits``, then check the history and the books."""
    for commit in commits:
        try:
            async with UpgradeRig(folder / f"upgrade-{commit}", commit, cards, seed) as rig:
                await _drill(rig, commit, report)
        except NotInjectedError as reason:
            for step, _ in STEPS:
                report.not_injected(fault_of(commit, step), str(reason))


async def _stepped(rig: UpgradeRig, fault: Fault, step: Step, report: ChaosReport) -> bool:
    """Take one step; returns whether the next one makes sense."""
    print(f"{time.strftime('%H:%M:%S')} {fault.promise:4} {fault.name}", flush=True)
    try:
        outcome = await step(rig)
    except NotInjectedError as reason:
        report.not_injected(fault, str(reason))
    except (RuntimeError, TimeoutError) as failure:
        report.failed(fault, f"{type(failure).__name__}: {failure}")
        print(f"         FAILED: {failure}", flush=True)
        return False
    else:
        print(f"         {outcome.figure:.0f} ({fault.unit})", *outcome.broken, flush=True)
        report.injected(fault, outcome)
    return True


async def _drill(rig: UpgradeRig, commit: str, report: ChaosReport) -> None:
    await rig.crowd.begin()
    rig.user.begin()
    await asyncio.sleep(PAUSE_SECONDS)
    for name, step in STEPS:
        if not await _stepped(rig, fault_of(commit, name), step, report):
            break
    await rig.leave()
    report.operations += len(rig.crowd.history.operations)
    for finding in await rig.findings():
        report.found(finding)


def main() -> None:
    """Run the drill, print the report, and exit with status 0 only if everything held."""
    parser = argparse.ArgumentParser(
        prog="python -m ops.chaos.upgrades", description="Upgrades from earlier releases under load."
    )
    parser.add_argument("--before", action="append", help="a commit to upgrade from; may be repeated")
    parser.add_argument("--cards", type=int, default=12)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--folder", default="", help="keep logs and the database in this folder")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    report = ChaosReport(options.seed)
    temporary = Path(tempfile.mkdtemp(prefix="stanchion-upgrades-"))
    try:
        folder = Path(options.folder or temporary)
        asyncio.run(run(folder, options.cards, options.seed, report, options.before or RELEASES))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    report.show()
    sys.exit(0 if report.passed else 1)


if __name__ == "__main__":
    main()
