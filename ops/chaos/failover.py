"""Drills on PostgreSQL's primary: it is killed, frozen, cut off or demoted under load, and its synchronous
standby is promoted. No acknowledged decision may be missing from the promoted server.

    python -m ops.chaos.failover [--folder DIR] [--cards 12] [--only WORD]

Each drill has the same steps: the fault; a pause, as a failover manager needs it; the promotion; the first
approval on every card; the return of the former primary, which does not know of the promotion. Then all
processes must have left it, and it becomes the standby for the next drill.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import asyncpg
import structlog

from engine.iso8583.respond import approves
from ops.audit import Finding, audit
from ops.chaos.environment.base import Environment
from ops.chaos.environment.postgres_pair import PostgresPair
from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.fault import ANSWER_SECONDS_MAX, Fault, Outcome
from ops.chaos.report import ChaosReport
from ops.chaos.traffic.issuing import new_cards, plastics
from ops.chaos.traffic.shoppers import Crowd, Terminal
from ops.embedded.redis import EmbeddedRedis
from ops.histories.check import check
from ops.histories.operations import Operation
from ops.supervision.running_installation import RunningInstallation
from stanchion import Client

FUNDS: Final = "5000000.00"
DETECTION_SECONDS: Final = (1.0, 3.0)
"""Pause between the fault and the promotion; longer than a commit's timeout or shorter."""
RESUMED_SECONDS_MAX: Final = 5.0
PROBE_SECONDS: Final = 0.2
"""Pause between two new purchases on one card, until the first approval."""
PAUSE_SECONDS: Final = 0.05
PATIENCE_SECONDS: Final = 60.0
LEFT_SECONDS_MAX: Final = 30.0
_UNIT: Final = "s from promotion to the last card's approval"


class FailoverRig(Environment):
    """An async context manager: an installation on a pair of servers, with shoppers. Enter it in the thread
    in which Redis shall live."""

    def __init__(self, folder: Path, cards: int, seed: int) -> None:
        super().__init__()
        self.dice = random.Random(seed)
        self._folder = folder
        self._cards = cards
        self._seed = seed
        self.pair = PostgresPair(folder / "servers")
        self.crowd: Crowd
        self.record: dict[str, Any] = {}

    async def _set_up(self) -> None:
        redis = EmbeddedRedis(self._folder / "servers")
        redis.start()
        self._stack.callback(redis.stop)
        await self._stack.enter_async_context(self.pair)
        var_dir = self._folder / "var"
        installation = RunningInstallation(
            var_dir,
            {
                "STANCHION_DATABASE_URL": self.pair.dsn,
                "STANCHION_REDIS_URL": redis.url,
                "STANCHION_AUTO_CLEAR_SECONDS": "0",
            },
        )
        self._stack.push_async_callback(asyncio.to_thread, installation.stop)
        self.record = await asyncio.to_thread(installation.start)
        issued = await asyncio.to_thread(self._issue)
        connection = await self.connect()
        try:
            cards = await plastics(connection, var_dir, issued)
        finally:
            await connection.close(timeout=10)
        wire = self.record["iso8583"]
        self.crowd = Crowd((wire["host"], wire["port"]), cards, self._seed)
        self._stack.push_async_callback(self.crowd.close)
        await self.crowd.open()

    def _issue(self) -> list[str]:
        owner = next(each for each in self.record["tenants"] if each["mode"] == "test")
        with Client(self.record["base_url"], owner["client_id"], owner["client_secret"]) as api:
            programme = api.programs.create(name="Failover", currency="EUR")["id"]
            return new_cards(api, programme, self._cards, funds=FUNDS)

    async def connect(self) -> asyncpg.Connection[asyncpg.Record]:
        """A connection to the present primary, past the proxies."""
        return await asyncpg.connect(self.pair.primary.url, timeout=10)

    async def approved_everywhere(self) -> float:
        """Wait until a new purchase on every card is approved; returns the seconds that it took. Raises
        TimeoutError."""
        began = time.monotonic()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*map(_approved, self.crowd.terminals))
        return time.monotonic() - began

    async def findings(self) -> list[Finding]:
        """The findings of the history and of the audit, on the present primary."""
        connection = await self.connect()
        try:
            history = await check(connection, self.crowd.history.operations)
        finally:
            await connection.close(timeout=10)
        return [*history, *await audit(self.pair.primary.url)]


async def _approved(terminal: Terminal) -> None:
    """Return when a new purchase is approved. Purchases begin one after the other without waiting: one that
    began before the promotion may be answered only at its deadline."""
    purchases: set[asyncio.Task[Any]] = set()
    try:
        while True:
            purchases.add(asyncio.create_task(terminal.purchase(repeats=0)))
            done, purchases = await asyncio.wait(purchases, timeout=PROBE_SECONDS)
            answers = [task.result() for task in done]
            if any(each.outcome == "ok" and approves(each.response_code or "") for each in answers):
                return
            await asyncio.sleep(PAUSE_SECONDS)
    finally:
        # Their answers are part of the history.
        if purchases:
            await asyncio.wait(purchases)


Injure = Callable[[PostgresPair], Awaitable[None]]


async def drill(rig: FailoverRig, injure: Injure) -> Outcome:
    """Injure the primary, promote its standby, and let the former primary return. The shoppers must be
    shopping. Figure: seconds from the promotion to the last card's first approval."""
    pair = rig.pair
    await injure(pair)
    injured = time.monotonic()
    await asyncio.sleep(rig.dice.uniform(*DETECTION_SECONDS))
    promoted = time.monotonic()
    await pair.promote()
    outcome = Outcome(await rig.approved_everywhere())
    _expect_no_new_answer(rig, injured, promoted, outcome)
    await pair.return_former()
    left = await pair.former_unused(LEFT_SECONDS_MAX)
    outcome.expect(left, f"a process uses the former primary {LEFT_SECONDS_MAX:.0f} s after its return")
    await rig.approved_everywhere()
    await pair.rebuild()
    await rig.approved_everywhere()
    return outcome


def _expect_no_new_answer(rig: FailoverRig, injured: float, promoted: float, outcome: Outcome) -> None:
    """No message has its first answer between the fault and the promotion. A host may repeat an answer."""
    asked = [each for each in rig.crowd.history.operations if each.ended is not None]
    meanwhile = new_answers(asked, injured, promoted)
    outcome.expect(not meanwhile, f"{meanwhile} new answers while there was no primary")
    if not any(each.began < promoted and (each.ended or 0.0) > injured for each in asked):
        raise NotInjectedError("no operation ran during the fault")


def new_answers(operations: Iterable[Operation], began: float, ended: float) -> int:
    """The number of operations between the two instants with an answer that no operation before had."""
    answered = [each for each in operations if each.outcome == "ok" and each.ended is not None]
    known = {(each.card_id, each.identity) for each in answered if (each.ended or 0.0) <= began}
    return sum(
        began < each.began and (each.ended or 0.0) < ended and (each.card_id, each.identity) not in known
        for each in answered
    )


def _fault(name: str) -> Fault:
    return Fault("G1", name, _UNIT, RESUMED_SECONDS_MAX)


KILLED: Final = _fault("PostgreSQL's primary killed, its standby promoted")
DRILLS: Final[tuple[tuple[Fault, Injure], ...]] = (
    (KILLED, PostgresPair.kill),
    (_fault("PostgreSQL's primary frozen, its standby promoted"), PostgresPair.freeze),
    (_fault("PostgreSQL's primary cut off, its standby promoted"), PostgresPair.cut_off),
    (_fault("PostgreSQL's primary read-only, its standby promoted"), PostgresPair.demote),
)


async def run(
    folder: Path, cards: int, seed: int, report: ChaosReport, faults: Sequence[Fault] | None = None
) -> None:
    """Run the drills of ``faults`` once (all by default), then check the history and the books. Raises the
    errors of the start."""
    async with FailoverRig(folder / "failover", cards, seed) as rig:
        await rig.crowd.begin()
        for fault, injure in DRILLS:
            if faults is None or fault in faults:
                await _round(rig, fault, injure, report)
        await rig.crowd.end()
        report.operations += len(rig.crowd.history.operations)
        for finding in await rig.findings():
            report.found(finding)


async def _round(rig: FailoverRig, fault: Fault, injure: Injure, report: ChaosReport) -> None:
    print(f"{time.strftime('%H:%M:%S')} {fault.promise:4} {fault.name}", flush=True)
    began = time.monotonic()
    try:
        outcome = await drill(rig, injure)
    except NotInjectedError as reason:
        report.not_injected(fault, str(reason))
    except TimeoutError as failure:
        report.failed(fault, f"the installation or a server did not return in time: {failure}")
        raise
    else:
        answered = [each for each in rig.crowd.history.since(began) if each.ended and each.response_code]
        slowest = max(((each.ended or 0.0) - each.began for each in answered), default=0.0)
        outcome.expect(slowest <= ANSWER_SECONDS_MAX, f"the slowest answer took {slowest:.2f} s")
        print(f"         {outcome.figure:.2f} ({fault.unit})", *outcome.broken, flush=True)
        report.injected(fault, outcome)


def main() -> None:
    """Run the drills, print the report, and exit with status 0 only if everything held."""
    parser = argparse.ArgumentParser(
        prog="python -m ops.chaos.failover", description="Failover of PostgreSQL under load."
    )
    parser.add_argument("--cards", type=int, default=12)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--folder", default="", help="keep logs and databases in this folder")
    parser.add_argument("--only", default="", help="only drills with this word in their name")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    report = ChaosReport(options.seed)
    faults = [fault for fault, _ in DRILLS if options.only in fault.name]
    with tempfile.TemporaryDirectory(prefix="stanchion-failover-") as temporary:
        asyncio.run(run(Path(options.folder or temporary), options.cards, options.seed, report, faults))
    report.show()
    sys.exit(0 if report.passed else 1)


if __name__ == "__main__":
    main()
