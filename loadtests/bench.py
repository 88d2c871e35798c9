"""The benchmark: `make bench`, or `python -m loadtests.bench --help`.

``--against COMMIT`` also measures an earlier commit of this repository, in turn with the present code.

It starts an installation of its own, loads it and its rivals in short alternating slices (A B C A B C …),
prints a report, and stops all processes it started. It is not a test: figures depend on the machine and on
other load, so the report says how busy other processes were.
"""

from __future__ import annotations

import argparse
import asyncio
import selectors
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import msgspec

from loadtests.choices import arguments, chosen, chosen_rivals, not_compared
from loadtests.figures import Slice
from loadtests.generators.http import Api, HttpError
from loadtests.generators.rest import held_minor
from loadtests.generators.workload import AMOUNT_MINOR
from loadtests.harness.checkout import Checkout, CheckoutError, Commit, check_out, find_commit
from loadtests.harness.children import ChildError, one_line
from loadtests.harness.footprint import Footprint, footprint
from loadtests.harness.machine import fsync_ms, machine, niceness
from loadtests.harness.servers import BenchServers, ServerPlan
from loadtests.harness.slices import measure
from loadtests.harness.stopping import run_until_stopped, stoppable
from loadtests.harness.systems import OURS
from loadtests.reports.page import page
from loadtests.reports.planning import planning
from loadtests.reports.publish import NoMarksError, check_marks, insert_found, write
from loadtests.reports.report import BenchReport, Proof
from loadtests.workloads import FAR_MS, Workload

WARM_SECONDS = 0.4
IDLE_SECONDS = 3.0
PRIMING_SECONDS = 1.0
DRAIN_SECONDS_MAX = 15.0
STAND_IN_CARDS = 300
CAPPED_CARDS = 20
CAPPED_SALES = 10_000
RELIVED_DECISIONS = 50_000
"""A back-test of them takes longer than a slice."""
FAR_CARDS = 300
SECTIONS = ("report", "ahead", "capacity", "cost", "beside")
"""The marks that ``--into`` looks for in a document."""


def plan_of(options: argparse.Namespace, workloads: list[Workload], rivals: tuple[str, ...]) -> ServerPlan:
    """The servers that ``workloads`` need; either all workloads are ``far`` or none."""
    needed = {name for each in workloads for name in each.rivals}
    far = any(each.far for each in workloads)
    capped = any(each.capped for each in workloads)
    return ServerPlan(
        cards=min(options.cards, FAR_CARDS) if far else options.cards,
        stand_in_cards=STAND_IN_CARDS if any(each.stands_in for each in workloads) else 0,
        capped_cards=CAPPED_CARDS if capped else 0,
        capped_sales=CAPPED_SALES if capped else 0,
        rivals=tuple(name for name in rivals if name in needed),
        rival_processes=options.rival_processes,
        rival_connections=options.rival_connections,
        relived_decisions=RELIVED_DECISIONS if any(each.relives for each in workloads) else 0,
        far_ms=FAR_MS if far else 0.0,
    )


async def run(
    options: argparse.Namespace, workloads: list[Workload], folder: Path, checkout: Checkout | None = None
) -> BenchReport:
    """Measure ``workloads``, first with the near database, then with the far one."""
    report = BenchReport(
        machine=machine(),
        database={},
        fsync_ms=fsync_ms(folder),
        plan={"seconds": options.seconds, "rounds": options.rounds},
        footprints=[],
        titles={each.name: each.title for each in workloads},
        uniform={each.name: each.uniform for each in workloads if each.uniform},
        against="" if checkout is None else checkout.about,
        not_compared=[] if checkout is None else not_compared(workloads),
        slices=[],
    )
    began = time.monotonic()
    rivals = chosen_rivals(options.rivals)
    for far in (False, True):
        chosen_here = [each for each in workloads if each.far is far]
        if chosen_here:
            plan = plan_of(options, chosen_here, rivals)
            where = Path(mkdtemp(dir=folder))
            try:
                compared = any(each.outside is not None for each in chosen_here)
                beside = checkout if compared else None
                await _on_one_installation(options, chosen_here, plan, where, report, beside)
            except (ChildError, HttpError) as failure:
                # The measurements so far are still reported.
                report.failures.append(one_line(failure))
    report.machine["minutes"] = f"{(time.monotonic() - began) / 60:.1f}"
    report.summarise()
    return report


async def _on_one_installation(
    options: argparse.Namespace,
    workloads: list[Workload],
    plan: ServerPlan,
    folder: Path,
    report: BenchReport,
    checkout: Checkout | None,
) -> None:
    earlier = [] if checkout is None else [checkout.commit.name]
    beside = ", ".join((*earlier, *plan.rivals)) or "no rival"
    _say(f"Starting an installation, {plan.cards} cards, and {beside} ...")
    async with BenchServers(folder, plan, checkout=checkout) as servers:
        if not report.database:
            report.plan |= msgspec.to_builtins(plan)
            report.machine["niceness"] = niceness(servers.ours.labels)
        if not plan.far_ms:
            report.footprints = await _footprints(servers)
        report.database = report.database or await servers.inside.ask("database")
        slices: list[Slice] = []
        for workload in workloads:
            if workload.primes:
                slices += await _round(servers, workload, PRIMING_SECONDS, 0)
        for number in range(options.rounds):
            _say(f"Round {number + 1} of {options.rounds}{' (far)' if plan.far_ms else ''}")
            for workload in workloads:
                found = await _round(servers, workload, options.seconds, number)
                slices += found
                report.slices += found
        report.proofs += await _proofs(servers, slices)


async def _footprints(servers: BenchServers) -> list[Footprint]:
    found = [await footprint(servers.ours, servers.start_seconds, IDLE_SECONDS)]
    if servers.earlier is not None:
        about = servers.earlier
        found.append(await footprint(about.system, about.start_seconds, IDLE_SECONDS))
    return found


async def _proofs(servers: BenchServers, slices: list[Slice]) -> list[Proof]:
    """Compare, for every system, the approvals that callers received with the holds in its books."""
    near = "" if not servers.plan.far_ms else ", far"
    proofs = []
    approved = sum(each.approved for each in slices if each.system == OURS)
    held = await _held(servers.api, servers.every_id, approved)
    proofs.append(Proof(f"{OURS}{near}", approved, held))
    if servers.earlier is not None:
        earlier = servers.earlier
        approved = sum(each.approved for each in slices if each.system == earlier.system.name)
        held = await _held(earlier.api, earlier.card_ids, approved)
        proofs.append(Proof(earlier.system.name, approved, held))
    for rival in servers.rivals.values():
        names = {system.name for system in rival.systems}
        approved = sum(each.approved for each in slices if each.system in names)
        proofs.append(Proof(f"{rival.name}{near}", approved, await rival.held_minor() // AMOUNT_MINOR))
    return proofs


async def _held(api: Api, card_ids: list[str], approved: int) -> int:
    """The number of approvals whose hold exists; the last simulated spends may still be open."""
    deadline = time.monotonic() + DRAIN_SECONDS_MAX
    while True:
        held = await held_minor(api, card_ids) // AMOUNT_MINOR
        if held >= approved or time.monotonic() > deadline:
            return held


async def _round(servers: BenchServers, workload: Workload, seconds: float, number: int) -> list[Slice]:
    """One slice of each system; every other round runs in reverse order, so that no system is always last."""
    slices = []
    for system in servers.systems if number % 2 == 0 else reversed(servers.systems):
        load = workload.load(system.name, servers)
        if load is not None:
            found = await measure(workload.name, system, load, warm_seconds=WARM_SECONDS, seconds=seconds)
            _say(
                f"  {workload.name:<14} {system.name:<18} {found.decisions_per_second:8,.0f}/s"
                f"  p50 {found.p50_ms:7.1f} ms  p99 {found.p99_ms:7.1f} ms"
                f"  {found.server_cpu_us:6.0f} µs server CPU each"
            )
            slices.append(found)
    return slices


def main() -> None:
    """Entry point of the command."""
    options = arguments()
    try:
        workloads = chosen(options.only)
        chosen_rivals(options.rivals)
        for document in options.into:
            check_marks(document, SECTIONS)
        commit = None if options.against is None else find_commit(options.against)
        left_out = [] if commit is None else not_compared(workloads)
    except (ValueError, NoMarksError, CheckoutError) as wrong:
        raise SystemExit(f"bench: {wrong}") from None
    if left_out:
        _say(f"Inside the process, so not compared with another commit: {', '.join(left_out)}")
    report = _measured(options, workloads, commit)
    print(f"\n{report.text()}")
    files = write(options.report, "bench", report.text(), report.json(), page(report))
    _say(f"Written: {', '.join(map(str, files))}")
    sections = {"report": report.text()} | planning(report)
    for document in options.into:
        insert_found(document, sections)
    if report.failures:
        raise SystemExit(f"bench: {'; '.join(report.failures)}")
    if any(proof.held < proof.approved for proof in report.proofs):
        raise SystemExit("bench: approvals are missing from the balances")


def _measured(options: argparse.Namespace, workloads: list[Workload], commit: Commit | None) -> BenchReport:
    """The report of a run in a temporary folder."""
    # select() takes microseconds where epoll takes milliseconds: an open loop keeps its schedule.
    loop_factory = lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())  # noqa: E731
    with stoppable("bench"), TemporaryDirectory(prefix="stanchion-bench-") as folder:
        try:
            checkout = None
            if commit is not None:
                checkout = check_out(commit, Path(folder) / "clone", _say, python=options.against_python)
            return run_until_stopped(run(options, workloads, Path(folder), checkout), loop_factory)
        except CheckoutError as wrong:
            raise SystemExit(f"bench: {wrong}") from None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
