"""Concurrent stand-ins on one budget (G6).

A programme's endpoint fails, and 64 concurrent authorizations compete for a budget that is enough for 13. In
some rounds the budget's owner is killed, its currency changes, or the endpoint returns for a moment.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import Final, Literal

import asyncpg

from engine.ids import shard_of
from ops.chaos.environment.processes import signal_processes
from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.fault import Fault, Outcome
from ops.chaos.rig import Rig
from ops.chaos.traffic.delegated_programme import SPENDS_IN_BUDGET

AT_ONCE: Final = 64
ONE_MINOR: Final = 100
OUTAGE_SECONDS_MAX: Final = 30.0
"""From the endpoint's return to the end of its outages, including the replacement of a host."""

Disturbance = Literal["none", "owner killed", "currency changed", "flapping"]
DISTURBANCES: Final[tuple[Disturbance, ...]] = ("none", "owner killed", "currency changed", "flapping")

# A change of currency begins a new budget period inside an outage; stand-in records name the outage, not the
# period.
_OUTAGES: Final = """
    SELECT o.*, coalesce(s.exposure_minor, 0) AS exposure_minor, coalesce(s.refused, 0) AS refused
    FROM (SELECT id, currency, sum(used_minor)::bigint AS used_minor, max(used_minor) AS used_minor_max,
                 bool_and(ended_at IS NOT NULL) AS ended
          FROM outages WHERE programme_id = $1::text::uuid GROUP BY id, currency) o
    LEFT JOIN (SELECT outage_id, currency, sum(exposure_minor)::bigint AS exposure_minor,
                      count(*) FILTER (WHERE rule = 'max_total_exposure_exceeded') AS refused
               FROM stand_ins WHERE programme_id = $1::text::uuid GROUP BY outage_id, currency) s
      ON s.outage_id = o.id AND s.currency = o.currency"""
_FINISHED: Final = """
    SELECT count(*) FROM events WHERE type = 'authorization.stip_outage.finished'
    AND data::jsonb ->> 'programme_id' = $1"""


async def stand_ins_at_once(rig: Rig) -> Outcome:
    """Rounds of 64 authorizations on a budget for 13. Figure: the largest used part of a budget."""
    programme, outcome = rig.budgeted, Outcome(0.0, rounds=len(DISTURBANCES))
    before = {row["id"] for row in await _outages(rig)}
    for disturbance in DISTURBANCES:
        await _one_round(rig, disturbance)
        await _recovered(rig)
    rows = await _outages(rig)
    new = [row for row in rows if row["id"] not in before]
    if not any(row["refused"] for row in new):
        raise NotInjectedError("no budget was used up")
    limit_minor = SPENDS_IN_BUDGET * ONE_MINOR
    outcome.figure = max(row["used_minor_max"] / limit_minor for row in new)
    for row in new:
        exposure, used = row["exposure_minor"], row["used_minor"]
        outcome.expect(exposure <= used, f"{exposure} approved in an outage with {used} used")
    finished = (await rig.fetch(_FINISHED, programme.programme_id))[0]["count"]
    outages = len({row["id"] for row in rows})
    outcome.expect(finished == outages, f"{finished} ends of {outages} outages")
    return outcome


async def _outages(rig: Rig) -> list[asyncpg.Record]:
    return await rig.fetch(_OUTAGES, rig.budgeted.programme_id)


async def _one_round(rig: Rig, disturbance: Disturbance) -> None:
    programme, terminals = rig.budgeted, rig.budgeted_terminals
    programme.behave("down")
    asking = [
        asyncio.create_task(terminals[number % len(terminals)].purchase(amount_minor=ONE_MINOR))
        for number in range(AT_ONCE)
    ]
    await asyncio.sleep(rig.dice.uniform(0.0, 0.1))
    if disturbance == "owner killed":
        await _kill_owner(rig, programme.programme_id)
    elif disturbance == "currency changed":
        await programme.set_currency("GBP")
        await programme.require_currency("EUR")
    elif disturbance == "flapping":
        for behaviour in ("approve", "down", "slow", "down"):
            programme.behave(behaviour)
            await asyncio.sleep(rig.dice.uniform(0.01, 0.1))
    await asyncio.gather(*asking)


async def _kill_owner(rig: Rig, programme_id: str) -> None:
    """Kill the host that owns the programme and its budget."""
    [row] = await rig.fetch("SELECT host FROM shards WHERE shard = $1", shard_of(programme_id))
    hosts = await rig.hosts()
    if row["host"] in hosts and len(hosts) > 1:
        with suppress(NotInjectedError):
            signal_processes(signal.SIGKILL, [hosts[row["host"]]])


async def _recovered(rig: Rig) -> None:
    """Let the endpoint answer again, and spend until every outage has ended. Raises TimeoutError."""
    programme = rig.budgeted
    programme.behave("approve")
    async with asyncio.timeout(OUTAGE_SECONDS_MAX):
        while True:
            await rig.budgeted_terminals[0].purchase(amount_minor=ONE_MINOR)
            if all(row["ended"] for row in await _outages(rig)):
                return
            await asyncio.sleep(0.1)


STAND_IN_FAULTS: Final = (
    Fault(
        "G6",
        f"{AT_ONCE} stand-ins at once on a budget for {SPENDS_IN_BUDGET}",
        "of the budget",
        1,
        stand_ins_at_once,
    ),
)
