"""One tenant's service beside a greedy tenant: `python -m loadtests.fairness`.

A tenant gets 500 decisions a second over ISO 8583 and sends some requests to the API, both at fixed instants.
They are timed alone, and beside another tenant that keeps 20 times as many API requests open
(``loadtests.generators.greed``). The exit status is 0 only if the first tenant's latencies stay within the
targets. Run it on a machine without other load.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from loadtests.figures import percentile
from loadtests.generators.greed import summary
from loadtests.generators.http import Api, HttpError
from loadtests.generators.wire import WireLoad
from loadtests.harness.children import ChildError, Helper
from loadtests.harness.machine import machine
from loadtests.harness.servers import BenchServers, ServerPlan
from loadtests.harness.stopping import run_until_stopped, stoppable
from loadtests.lists import two_tenants
from loadtests.options import count, positive

CARDS: Final = 500
DECISIONS_PER_SECOND: Final = 500.0
CALLS_PER_SECOND: Final = 40.0
CALLS_OPEN: Final = 8
"""API connections of the measured tenant."""
GREEDY: Final = 20
"""The other tenant keeps so many times as many requests open."""
PROGRAMMES: Final = 11_000
SECONDS: Final = 30.0
WARM_UP_SECONDS: Final = 5.0
CONNECTIONS: Final = 4
DECISION_MS_P99_MAX: Final = 25.0
CALL_MS_P99_MAX: Final = 100.0
MODULE: Final = "loadtests.generators.greed"


class Service(msgspec.Struct, frozen=True):
    """One tenant's service: latencies in milliseconds from the instant at which each request was due."""

    decisions: int
    decision_p50_ms: float
    decision_p99_ms: float
    refused: int
    """Decisions that were not approvals, and those without an answer."""
    calls: int
    call_p50_ms: float
    call_p99_ms: float
    failed: int
    """API calls that were refused or failed."""

    @property
    def broken(self) -> list[str]:
        """The targets that this service misses."""
        found = []
        if self.decision_p99_ms > DECISION_MS_P99_MAX:
            found.append(
                f"p99 of decisions is {self.decision_p99_ms:.1f} ms, more than {DECISION_MS_P99_MAX:.0f}"
            )
        if self.call_p99_ms > CALL_MS_P99_MAX:
            found.append(f"p99 of API calls is {self.call_p99_ms:.1f} ms, more than {CALL_MS_P99_MAX:.0f}")
        if self.refused or self.failed:
            found.append(f"{self.refused} decisions and {self.failed} API calls failed")
        return found


async def measure(
    servers: BenchServers, client: dict[str, str], per_second: float, seconds: float
) -> Service:
    """The service of the tenant that owns the cards, over ``seconds``."""
    load = WireLoad([servers.edge], servers.cards, connections=CONNECTIONS, per_second=per_second)
    api = Api(servers.run["base_url"], CALLS_OPEN)
    await api.open(client)
    began = time.monotonic()
    await load.start()
    try:
        waits, failed = await _call(api, servers.card_ids, began + seconds)
    finally:
        samples = await load.stop()
        await api.close()
    decisions = [1000 * (done - at) for at, done in zip(samples.started, samples.done, strict=True)]
    return Service(
        decisions=len(decisions),
        decision_p50_ms=percentile(decisions, 0.5),
        decision_p99_ms=percentile(decisions, 0.99),
        refused=samples.refused + samples.lost,
        calls=len(waits),
        call_p50_ms=percentile(waits, 0.5),
        call_p99_ms=percentile(waits, 0.99),
        failed=failed,
    )


async def _call(api: Api, card_ids: list[str], until: float) -> tuple[list[float], int]:
    """API calls at a fixed rate: reads, lists and writes in turn. Returns their latencies and failures."""
    waits: list[float] = []
    failures: list[HttpError] = []
    cards = itertools.cycle(card_ids)

    async def call(number: int, due: float) -> None:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        card, kind = next(cards), number % 4
        try:
            if kind == 0:
                load = {"card_id": card, "amount": {"amount": "1.00", "currency": "EUR"}}
                await api.call("POST", "/v1/simulated-loads", load, status=201)
            elif kind == 1:
                await api.call("GET", f"/v1/cards/{card}/balance")
            elif kind == 2:
                await api.call("GET", f"/v1/transactions?card_id={card}&limit=10")
            else:
                await api.call("GET", f"/v1/cards/{card}")
        except HttpError as failure:
            failures.append(failure)
        waits.append(1000 * (time.monotonic() - due))

    began = time.monotonic()
    number = int((until - began) * CALLS_PER_SECOND)
    await asyncio.gather(*(call(each, began + each / CALLS_PER_SECOND) for each in range(number)))
    return waits, len(failures)


async def run(folder: Path, options: argparse.Namespace) -> tuple[Service, Service, dict[str, int]]:
    """The service alone, the service beside the greedy tenant, and the answers to the latter."""
    settings = {"STANCHION_QUOTA_PROGRAMMES": str(options.programmes + 100)}
    plan = ServerPlan(cards=options.cards, rival_processes=0)
    _say("Starting an installation and its cards ...")
    async with BenchServers(folder, plan, settings) as servers:
        owner, other = two_tenants(servers.run)
        with (folder / "greed.log").open("ab") as errors:
            greed = Helper({}, MODULE)
            await greed.start(errors)
        try:
            made = await _open(greed, servers.run, other, options.programmes)
            _say(f"The greedy tenant has {made:,} programmes. Measuring {options.seconds:.0f} s alone ...")
            await measure(servers, owner, options.per_second, WARM_UP_SECONDS)
            alone = await measure(servers, owner, options.per_second, options.seconds)
            await greed.ask("begin", workers=GREEDY * CALLS_OPEN)
            _say(f"Measuring {options.seconds:.0f} s beside {GREEDY * CALLS_OPEN} open requests ...")
            await measure(servers, owner, options.per_second, WARM_UP_SECONDS)
            beside = await measure(servers, owner, options.per_second, options.seconds)
            return alone, beside, await greed.ask("end")
        finally:
            await greed.stop()


async def _open(greed: Helper, record: dict[str, Any], client: dict[str, Any], programmes: int) -> int:
    """Open the greedy tenant, and create its programmes in steps: one answer of the helper has a time
    limit."""
    addresses = {name: record[name] for name in ("base_url", "vision_url")}
    credentials = {name: client[name] for name in ("client_id", "client_secret")}
    made = int(await greed.ask("open", run=addresses, client=credentials))
    while made < programmes:
        before, made = made, int(await greed.ask("create", programmes=min(made + 1_000, programmes)))
        if made == before:
            raise ChildError(f"only {made} programmes could be created")
    return made


def table(services: dict[str, Service]) -> str:
    """The services as a Markdown table."""
    lines = [
        "| tenant | decisions | p50 ms | p99 ms | failed | API calls | p50 ms | p99 ms | failed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {title} | {each.decisions:,} | {each.decision_p50_ms:.1f} | {each.decision_p99_ms:.1f} |"
        f" {each.refused} | {each.calls:,} | {each.call_p50_ms:.1f} | {each.call_p99_ms:.1f} |"
        f" {each.failed} |"
        for title, each in services.items()
    ]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run it; the exit status is 0 only if the targets hold."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.fairness", description=__doc__)
    parser.add_argument("--cards", type=count, default=CARDS, help="[%(default)s]")
    parser.add_argument("--programmes", type=count, default=PROGRAMMES, help="of the greedy tenant")
    parser.add_argument("--per-second", type=positive, default=DECISIONS_PER_SECOND, help="[%(default)s]")
    parser.add_argument("--seconds", type=positive, default=SECONDS, help="of each phase [%(default)s]")
    parser.add_argument("--folder", type=Path, help="keep logs and the database in this folder")
    options = parser.parse_args(arguments)
    conditions = machine()
    load = conditions["load average before"]
    try:
        with stoppable("fairness"), TemporaryDirectory(prefix="stanchion-fairness-") as temporary:
            folder = options.folder or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            alone, beside, answers = run_until_stopped(run(folder, options))
    except (ChildError, HttpError) as failure:
        print(f"loadtests.fairness: {failure}", file=sys.stderr)
        return 1
    print(f"{conditions['day']}, {conditions['cpu']}, load average {load} before.")
    print(f"The greedy tenant: {summary(answers)}.")
    print(table({"alone": alone, "beside the greedy tenant": beside}))
    for broken in beside.broken:
        print(f"BROKEN: {broken}")
    return 1 if beside.broken else 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
