"""The long forms of tests that need no installation: random lives, conversations, requests by the thousand.

They are the same tests as in ``make test``, with other examples each time and, where they take seeds, with as
many as a small machine gets through in the minutes that are left, or with all that their long form wants.
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
from ops.chaos.faults import Fault, Outcome

ROOT: Final = Path(__file__).parents[2]
_SUMMARY: Final = re.compile(r"(?:\d+ \w+|no tests ran) in \d")
_PASSED: Final = re.compile(r"(\d+) passed")


@dataclass(frozen=True)
class Suite:
    """Tests under ``path``. Of those that take seeds, ``seeds_per_minute`` is what a small machine gets
    through, and ``seeds_long`` what their long form wants."""

    promise: str
    name: str
    path: str
    seeds_per_minute: int = 0
    seeds_long: int = 0

    @property
    def fault(self) -> Fault:
        """Its row in the table."""
        return Fault(self.promise, self.name, "tests passed", None)


SUITES: Final = (
    Suite("G5", "every keyed operation again and altered", "tests/api/operations/test_idempotency.py"),
    Suite("G6", "every rule of stand-in, and owners replaced", "tests/conformance/test_stand_in.py"),
    Suite("G8", "the schedule of attempts, in virtual time", "tests/actors/webhooks/test_schedule.py"),
    Suite("G9", "another's verifier, and secrets that rotate", "tests/actors/webhooks/test_way.py"),
    Suite(
        "G10",
        "conversations and an independent book",
        "tests/conformance/test_conversations.py",
        3_000,
        20_000,
    ),
    Suite("G10", "crashes of the simulated network", "tests/actors/network/test_crashes.py"),
    Suite(
        "G11",
        "two edges with one repeat, by seed",
        "tests/actors/shards/test_wire_simulation.py",
        60,
        2_000,
    ),
    Suite("G19", "bad days by seed", "tests/actors/shards/test_simulation.py", 600, 50_000),
    Suite("G20", "faults put in on purpose: ownership", "tests/actors/shards/test_checkers.py"),
    Suite("G20", "faults put in on purpose: the wire", "tests/conformance/test_checkers.py"),
    Suite("G12", "damaged messages", "tests/conformance/test_fuzz.py"),
    Suite("G12", "requests that the description allows and forbids", "tests/api/docs/test_description.py"),
    Suite("G12", "broken requests on the socket", "tests/api/http/test_adversity.py"),
    Suite("G18", "applicants' data, everywhere", "tests/api/kyc/test_canaries.py"),
    Suite("G17", "foreign and random ids", "tests/api/test_isolation.py"),
)


async def run(suite: Suite, minutes: float | None) -> Outcome:
    """Run one suite for about so long, where that is its to choose; ``None``: in its long form. Raises
    NotInjectedError when there is nothing to run."""
    if not (ROOT / suite.path).exists():
        raise NotInjectedError(f"{suite.path} is not here")
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
    """How many; 0 where it takes none."""
    if minutes is None:
        return suite.seeds_long
    return max(1, int(suite.seeds_per_minute * minutes)) if suite.seeds_per_minute else 0


def judge(output: str, status: int | None) -> Outcome:
    """What pytest's output and exit status come to. Tests may have something to say after its last line."""
    summaries = [line.strip() for line in output.splitlines() if _SUMMARY.search(line)]
    last = summaries[-1] if summaries else "nothing was said"
    passed = _PASSED.search(last)
    outcome = Outcome(float(passed[1]) if passed else 0.0)
    outcome.expect(status == 0 and outcome.figure > 0, last)
    return outcome
