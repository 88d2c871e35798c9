"""Idempotency keys under faults: many concurrent copies while a host dies and connections are reset (G5)."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

from ops.chaos.environment.processes import signal_processes
from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.fault import Fault, Outcome
from ops.chaos.rig import Rig
from ops.chaos.traffic.idempotent_callers import COPIES_MAX

BURST: Final = 150


async def concurrent_copies(rig: Rig) -> Outcome:
    """Send many keys at once, kill a host, and reset every connection to the database. Figure: unanswered
    keys."""
    _, host = await rig.serving_host()
    burst = [asyncio.create_task(rig.callers.call_once()) for _ in range(BURST)]
    await asyncio.sleep(rig.dice.uniform(0.1, 0.4))
    signal_processes(signal.SIGKILL, [host])
    await asyncio.sleep(rig.dice.uniform(0.05, 0.3))
    rig.to_postgres.cut()
    keyed = await asyncio.gather(*burst)
    if not any(each.lost for each in keyed):
        raise NotInjectedError("no answer was lost")
    outcome = Outcome(float(sum(not each.answers for each in keyed)))
    outcome.expect(all(each.answers for each in keyed), "a key got no answer")
    refused = {answer.slug for each in keyed for answer in each.answers if answer.status != 201}
    outcome.expect(not refused, f"answered with {', '.join(sorted(refused))}")
    return outcome


IDEMPOTENCY_FAULTS: Final = (
    Fault(
        "G5", f"{BURST} keys × 1–{COPIES_MAX} copies, a host killed", "keys unanswered", 0, concurrent_copies
    ),
)
