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
    """Tests under ``path``; ``seeds_per_minute`` is what a small machine gets through."""

    promise: str
    name: str
    path: str
    seeds_per_minute: int

    @property
    def fault(self) -> Fault:
        """Its row in the table."""
        return Fault(self.promise, self.name, "tests passed", None)


SUITES: Final = (
    Suite("G5", "every keyed operation again and altered", "tests/api/test_idempotency.py", 0),
    Suite("G6", "every rule of stand-in, and owners replaced", "tests/conformance/test_stand_in.py", 0),
    Suite("G8", "the schedule of attempts, in virtual time", "tests/actors/webhooks/test_schedule.py", 0),
    Suite("G9", "another's verifier, and secrets that rotate", "tests/actors/webhooks/test_way.py", 0),
    Suite("G10", "conversations and an independent book", "tests/conformance/test_conversations.py", 3000),
    Suite("G10", "crashes of the simulated network", "tests/actors/network/test_crashes.py", 0),
    Suite("G19", "bad days by seed", "tests/actors/shards/test_simulation.py", 600),
    Suite("G20", "faults put in on purpose: ownership", "tests/actors/shards/test_checkers.py", 0),
    Suite("G20", "faults put in on purpose: the wire", "tests/conformance/test_checkers.py", 0),
    Suite("G12", "damaged messages", "tests/conformance/test_fuzz.py", 0),
    Suite("G12", "requests that the description allows and forbids", "tests/api/test_description.py", 0),
    Suite("G12", "broken requests on the socket", "tests/api/test_adversity.py", 0),
    Suite("G18", "applicants' data, everywhere", "tests/api/kyc/test_canaries.py", 0),
    Suite("G17", "foreign and random ids", "tests/api/test_isolation.py", 0),
)


async def run(suite: Suite, minutes: float | None) -> Outcome:
    """Run one suite for about so long, where that is its to choose; ``None``: in its long form. Raises
    NotInjectedError when there is nothing to run."""
    if not (ROOT / suite.path).exists():
        raise NotInjectedError(f"{suite.path} is not here")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pytest", "-q", "-x", "--timeout=0", "-p", "no:cacheprovider", suite.path,
        cwd=ROOT,
        env=os.environ | _how_long(suite, minutes),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    began = time.monotonic()
    output, _ = await process.communicate()
    outcome = judge(output.decode("utf-8", "replace"), process.returncode)
    if outcome.broken:
        outcome.broken[0] += f" (after {time.monotonic() - began:.0f} s)"
    return outcome


def _how_long(suite: Suite, minutes: float | None) -> dict[str, str]:
    """What the tests are told by their environment."""
    told = {"STANCHION_TEST_EXAMPLES": "searching"}
    if minutes is None:
        return told | {"STANCHION_CHAOS": "1"}
    if suite.seeds_per_minute:
        told["STANCHION_TEST_SEEDS"] = str(max(1, int(suite.seeds_per_minute * minutes)))
    return told


def judge(output: str, status: int | None) -> Outcome:
    """What pytest's output and exit status come to. Tests may have something to say after its last line."""
    summaries = [line.strip() for line in output.splitlines() if _SUMMARY.search(line)]
    last = summaries[-1] if summaries else "nothing was said"
    passed = _PASSED.search(last)
    outcome = Outcome(float(passed[1]) if passed else 0.0)
    outcome.expect(status == 0 and outcome.figure > 0, last)
    return outcome
