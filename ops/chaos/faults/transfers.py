"""Transfers under faults: a host dies in the middle of many of them (G3)."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

from engine.ids import Derived, derive
from ops.chaos.environment.processes import signal_processes
from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.fault import Fault, Outcome
from ops.chaos.rig import Rig
from ops.chaos.traffic.transfers import TransferCallers

COUNT: Final = 1_000
_OWNER: Final = "SELECT s.host FROM shards s WHERE s.shard = get_byte(uuid_send($1::text::uuid), 15)"


async def transfers_while_a_host_dies(rig: Rig) -> Outcome:
    """Post transfers to one account, reverse a quarter of them, and kill the account's owner in between.
    Figure: unanswered transfers."""
    hosts = await rig.hosts()
    if len(hosts) < 2:
        raise NotInjectedError("there are fewer than two hosts")
    mine = rig.transfer_account
    account_id = derive(mine.card_id, Derived.ACCOUNT)
    callers = TransferCallers(rig.record["base_url"], mine.token, account_id)
    running = asyncio.create_task(callers.run(COUNT))
    share = rig.dice.uniform(0.2, 0.6)
    await rig.until(lambda: callers.answered() > COUNT * share, "some transfers are answered", 90)
    owner = str((await rig.fetch(_OWNER, account_id))[0]["host"])
    if owner not in hosts or callers.answered() == COUNT:
        raise NotInjectedError("the account moved, or all transfers were answered")
    signal_processes(signal.SIGKILL, [hosts[owner]])
    await running
    outcome = Outcome(float(sum(each.unanswered for each in callers.moved)))
    refused = [each for each in callers.moved if each.status not in (None, 201)]
    outcome.expect(not refused, f"{len(refused)} transfers were refused")
    async with rig.connection() as connection:
        outcome.broken += (await callers.broken(connection))[:3]
    return outcome


TRANSFER_FAULTS: Final = (
    Fault(
        "G3",
        f"{COUNT:,} transfers, their owner killed",
        "transfers unanswered",
        0,
        transfers_while_a_host_dies,
    ),
)
