"""One tenant beside a greedy one: ``loadtests.fairness`` as a program of its own, with its targets."""

from __future__ import annotations

import asyncio
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.fault import Fault, Outcome

GREEDY: Final = Fault("G14", "a tenant at 20 times its share", "ms p99 of another tenant's decisions", None)
"""Its limits are those of ``loadtests.fairness``, whose exit status tells whether they hold."""
PROGRAMMES: Final = 2_000
SECONDS: Final = 15
_MODULE: Final = "loadtests.fairness"
_BESIDE: Final = re.compile(r"^\| beside [^|]*\|[^|]*\|[^|]*\| ([\d.]+) \|", re.MULTILINE)
_BROKEN: Final = re.compile(r"^BROKEN: (.+)$", re.MULTILINE)


async def run(folder: Path) -> Outcome:
    """Run it once. Raises NotInjectedError when it cannot run."""
    if find_spec("loadtests") is None:
        raise NotInjectedError("the package has no load tests")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", _MODULE, "--programmes", str(PROGRAMMES), "--seconds", str(SECONDS),
        "--folder", str(folder / "neighbours"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    return judge(output.decode("utf-8", "replace"), process.returncode)


def judge(output: str, status: int | None) -> Outcome:
    """The outcome by what the program printed, and its exit status."""
    found = _BESIDE.search(output)
    if found is None:
        raise NotInjectedError((output.strip().splitlines() or ["it printed nothing"])[-1])
    outcome = Outcome(float(found[1]), broken=_BROKEN.findall(output))
    outcome.expect(status == 0 or bool(outcome.broken), f"exit status {status}")
    return outcome
