"""Stand-in with a budget that everybody wants at once (G6).

The endpoint of a programme fails, 64 authorizations at once want a budget that is enough for 13, and
meanwhile the budget's owner is killed, its currency changes, or the endpoint comes back for a moment.
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
from ops.chaos.traffic.delegated_programme import FITS

AT_ONCE: Final = 64
ONE_MINOR: Final = 100
OUTAGE_SECONDS_MAX: Final = 30.0
"""From an endpoint's return to the end of its outages, a host's replacement included."""

Meanwhile = Literal["nothing", "owner killed", "currency changed", "flapping"]
MEANWHILE: Final[tuple[Meanwhile, ...]] = ("nothing", "owner killed", "currency changed", "flapping")

# A change of currency begins a new period inside an outage; stand-ins know their outage, not the period.
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
    """Rounds of 64 on a budget for 13. The figure is the largest part of a budget that was used."""
    programme, outcome = rig.budgeted, Outcome(0.0, rounds=len(MEANWHILE))
    before = {row["id"] for row in await _outages(rig)}
    for meanwhile in MEANWHILE:
        await _one_round(rig, meanwhile)
        await _recovered(rig)
    rows = await _outages(rig)
    new = [row for row in rows if row["id"] not in before]
    if not any(row["refused"] for row in new):
        raise NotInjectedError("no budget was used up")
    limit_minor = FITS * ONE_MINOR
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


async def _one_round(rig: Rig, meanwhile: Meanwhile) -> None:
    programme, terminals = rig.budgeted, rig.budgeted_terminals
    programme.behave("down")
    asking = [
        asyncio.create_task(terminals[number % len(terminals)].buy(amount_minor=ONE_MINOR))
        for number in range(AT_ONCE)
    ]
    await asyncio.sleep(rig.dice.uniform(0.0, 0.1))
    if meanwhile == "owner killed":
        await _kill_owner(rig, programme.programme_id)
    elif meanwhile == "currency changed":
        await programme.set_currency("GBP")
        await programme.have_currency("EUR")
    elif meanwhile == "flapping":
        for manner in ("approve", "down", "slow", "down"):
            programme.behave(manner)
            await asyncio.sleep(rig.dice.uniform(0.01, 0.1))
    await asyncio.gather(*asking)


async def _kill_owner(rig: Rig, programme_id: str) -> None:
    """The host whose memory has the budget."""
    [row] = await rig.fetch("SELECT host FROM shards WHERE shard = $1", shard_of(programme_id))
    hosts = await rig.hosts()
    if row["host"] in hosts and len(hosts) > 1:
        with suppress(NotInjectedError):
            signal_processes(signal.SIGKILL, [hosts[row["host"]]])


async def _recovered(rig: Rig) -> None:
    """The endpoint answers again; spend until every outage has ended. Raises TimeoutError."""
    programme = rig.budgeted
    programme.behave("approve")
    async with asyncio.timeout(OUTAGE_SECONDS_MAX):
        while True:
            await rig.budgeted_terminals[0].buy(amount_minor=ONE_MINOR)
            if all(row["ended"] for row in await _outages(rig)):
                return
            await asyncio.sleep(0.1)


STAND_IN_FAULTS: Final = (
    Fault("G6", f"{AT_ONCE} stand-ins at once on a budget for {FITS}", "of the budget", 1, stand_ins_at_once),
)
