"""Idempotency keys in trouble: many at once, while those who serve them are killed and cut off (G5)."""

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


async def copies_in_trouble(rig: Rig) -> Outcome:
    """Many keys at once while a host is killed and every connection to the database is reset."""
    hosts = await rig.hosts()
    if len(hosts) < 2:
        raise NotInjectedError("there are no two hosts")
    burst = [asyncio.create_task(rig.callers.once()) for _ in range(BURST)]
    await asyncio.sleep(rig.dice.uniform(0.1, 0.4))
    signal_processes(signal.SIGKILL, [hosts[rig.dice.choice(sorted(hosts))]])
    await asyncio.sleep(rig.dice.uniform(0.05, 0.3))
    rig.to_postgres.cut()
    keyed = await asyncio.gather(*burst)
    if not any(each.lost for each in keyed):
        raise NotInjectedError("no answer was lost")
    outcome = Outcome(float(sum(not each.heard for each in keyed)))
    outcome.expect(all(each.heard for each in keyed), "a key was never answered")
    refused = {heard.slug for each in keyed for heard in each.heard if heard.status != 201}
    outcome.expect(not refused, f"answered with {', '.join(sorted(refused))}")
    return outcome


IDEMPOTENCY_FAULTS: Final = (
    Fault(
        "G5", f"{BURST} keys × 1–{COPIES_MAX} copies, a host killed", "keys unanswered", 0, copies_in_trouble
    ),
)
