"""The long forms of the tests that need no installation: simulations, conversations and generated requests.

They are the tests of ``make test`` with other random examples each time. Suites with seeds get as many as fit
into the remaining minutes, or the full number of their long form.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.fault import Fault, Outcome

ROOT: Final = Path(__file__).parents[2]
_SUMMARY: Final = re.compile(r"(?:\d+ \w+|no tests ran) in \d")
_PASSED: Final = re.compile(r"(\d+) passed")


@dataclass(frozen=True)
class Suite:
    """The tests under ``path``. For suites with seeds: ``seeds_per_minute`` is the rate of a small machine,
    ``seeds_long`` the number in the long form."""

    promise: str
    name: str
    path: str
    seeds_per_minute: int = 0
    seeds_long: int = 0

    @property
    def fault(self) -> Fault:
        """Its row in the report."""
        return Fault(self.promise, self.name, "tests passed", None)


SUITES: Final = (
    Suite(
        "G5",
        "keyed operations repeated, and with another payload",
        "tests/api/operations/test_idempotency.py",
    ),
    Suite("G6", "every stand-in rule, and takeovers", "tests/conformance/test_stand_in.py"),
    Suite("G8", "the retry schedule in virtual time", "tests/actors/webhooks/test_schedule.py"),
    Suite("G9", "a third-party verifier, and secret rotation", "tests/actors/webhooks/test_pipeline.py"),
    Suite(
        "G10",
        "conversations against an independent model",
        "tests/conformance/test_conversations.py",
        3_000,
        20_000,
    ),
    Suite(
        "G10", "crashes of the simulated network", "tests/actors/network/test_simulated_network_crashes.py"
    ),
    Suite(
        "G11",
        "two edges and one repeat, by seed",
        "tests/actors/shards/test_wire_simulation.py",
        60,
        2_000,
    ),
    Suite("G19", "fault simulations by seed", "tests/actors/shards/test_simulation.py", 600, 50_000),
    Suite("G20", "deliberate bugs: ownership", "tests/actors/shards/test_checkers.py"),
    Suite("G20", "deliberate bugs: the wire", "tests/conformance/test_checkers.py"),
    Suite("G12", "malformed messages", "tests/conformance/test_fuzz.py"),
    Suite("G12", "valid and invalid requests by the API description", "tests/api/docs/test_description.py"),
    Suite("G12", "malformed requests on the socket", "tests/api/http/test_adversity.py"),
    Suite("G18", "applicants' data stays in custody", "tests/api/kyc/test_canaries.py"),
    Suite("G17", "ids of other tenants, and random ids", "tests/api/test_isolation.py"),
)


async def run(suite: Suite, minutes: float | None) -> Outcome:
    """Run one suite for about ``minutes`` if it takes seeds; ``None``: its long form. Raises NotInjectedError
    when the tests do not exist."""
    if not (ROOT / suite.path).exists():
        raise NotInjectedError(f"{suite.path} does not exist")
    seeds = _seeds(suite, minutes)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pytest", "-q", "-x", "--timeout=0", "-p", "no:cacheprovider", suite.path,
        cwd=ROOT,
        env=os.environ
        | {"STANCHION_TEST_EXAMPLES": "searching"}
        | ({"STANCHION_TEST_SEEDS": str(seeds)} if seeds else {})
        | ({"STANCHION_CHAOS": "1"} if minutes is None else {}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    began = time.monotonic()
    output, _ = await process.communicate()
    outcome = judge(output.decode("utf-8", "replace"), process.returncode)
    outcome.rounds = max(1, seeds)
    if outcome.broken:
        outcome.broken[0] += f" (after {time.monotonic() - began:.0f} s)"
    return outcome


def _seeds(suite: Suite, minutes: float | None) -> int:
    """The number of seeds; 0 for a suite without seeds."""
    if minutes is None:
        return suite.seeds_long
    return max(1, int(suite.seeds_per_minute * minutes)) if suite.seeds_per_minute else 0


def judge(output: str, status: int | None) -> Outcome:
    """The outcome by pytest's output and exit status. Warnings may follow the summary line."""
    summaries = [line.strip() for line in output.splitlines() if _SUMMARY.search(line)]
    last = summaries[-1] if summaries else "pytest printed no summary"
    passed = _PASSED.search(last)
    outcome = Outcome(float(passed[1]) if passed else 0.0)
    outcome.expect(status == 0 and outcome.figure > 0, last)
    return outcome
