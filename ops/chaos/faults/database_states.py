"""A PostgreSQL that answers but cannot serve decisions: it is read-only, or its clock is wrong."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from engine.limits import CLOCK_SECONDS
from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.expectations import after_outage, expect_answers_in_time
from ops.chaos.faults.fault import NORMAL_SECONDS_MAX, Fault, Outcome
from ops.chaos.rig import Rig

READ_ONLY_SECONDS: Final = (2.0, 6.0)
WRONG: Final = ("400 days", "-3 hours")
"""Offsets of the database's clock."""
WRONG_SECONDS: Final = CLOCK_SECONDS + 4.0
"""Duration of each offset: long enough that every host reads the clock."""

# New sessions search this schema before pg_catalog, so all their statements call these functions.
_MOVABLE: Final = """
    CREATE SCHEMA IF NOT EXISTS moved_clock;
    CREATE TABLE IF NOT EXISTS moved_clock.moved (by interval NOT NULL);
    DELETE FROM moved_clock.moved;
    INSERT INTO moved_clock.moved VALUES ('0');
    CREATE OR REPLACE FUNCTION moved_clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
        AS 'SELECT pg_catalog.clock_timestamp() + by FROM moved_clock.moved';
    CREATE OR REPLACE FUNCTION moved_clock.now() RETURNS timestamptz LANGUAGE sql STABLE
        AS 'SELECT pg_catalog.now() + by FROM moved_clock.moved';
    GRANT USAGE ON SCHEMA moved_clock TO PUBLIC;
    GRANT SELECT ON moved_clock.moved TO PUBLIC;
"""
_CHANGED: Final = """
    SELECT (SELECT count(*) FROM holds WHERE state = 'lapsed') AS lapsed,
        (SELECT count(*) FROM journal
            WHERE recorded_at NOT BETWEEN pg_catalog.now() - interval '1 hour' AND pg_catalog.now() + interval
            '1 hour') AS misdated,
        (SELECT count(DISTINCT day) FROM card_usage WHERE day > to_char(pg_catalog.now() + interval '1 day',
        'YYYY-MM-DD')) AS days"""


async def read_only(rig: Rig) -> Outcome:
    """The server refuses writes for a while, like a demoted primary."""
    async with rig.connection() as operator:
        await operator.execute("SET default_transaction_read_only = off")
        await operator.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        try:
            await operator.execute("SELECT pg_reload_conf()")
            await rig.until(lambda: _refuses_writes(rig), "the server refuses writes", 10.0)
            began = time.monotonic()
            await asyncio.sleep(rig.dice.uniform(*READ_ONLY_SECONDS))
        finally:
            returned = time.monotonic()
            await operator.execute("ALTER SYSTEM RESET default_transaction_read_only")
            await operator.execute("SELECT pg_reload_conf()")
    return await after_outage(rig, began, returned)


async def _refuses_writes(rig: Rig) -> bool:
    return bool((await rig.fetch("SHOW default_transaction_read_only"))[0][0] == "on")


async def wrong_clock(rig: Rig) -> Outcome:
    """Every statement sees a wrong database clock: no hold lapses, no day begins, and decisions are refused
    until the clock is right again."""
    name = (await rig.fetch("SELECT current_database()"))[0][0]
    outcome, began = Outcome(0.0), time.monotonic()
    async with rig.connection() as operator:
        await operator.execute(_MOVABLE)
        await operator.execute(f"ALTER DATABASE {name} SET search_path = moved_clock, pg_catalog, public")
        try:
            rig.to_postgres.cut()
            await rig.recovered()
            before = (await operator.fetch(_CHANGED))[0]
            for wrong in WRONG:
                await operator.execute("UPDATE moved_clock.moved SET by = $1::text::interval", wrong)
                await asyncio.sleep(WRONG_SECONDS)
                refused = not await rig.complete()
                after = (await operator.fetch(_CHANGED))[0]
                outcome.expect(refused, f"decisions continue while the clock is wrong by {wrong}")
                outcome.expect(after == before, f"{dict(after)} instead of {dict(before)} at {wrong}")
                await operator.execute("UPDATE moved_clock.moved SET by = '0'")
                outcome.figure = max(outcome.figure, await rig.recovered())
        finally:
            await operator.execute("UPDATE moved_clock.moved SET by = '0'")
            await operator.execute(f"ALTER DATABASE {name} RESET search_path")
            if not rig.to_postgres.cut():
                raise NotInjectedError("no connection used the moved clock")
    await rig.recovered()
    return expect_answers_in_time(rig, began, outcome)


DATABASE_FAULTS: Final = (
    Fault("G16", "PostgreSQL read-only", "s until normal", NORMAL_SECONDS_MAX, read_only),
    Fault("G3", "the database's clock is wrong", "s from right to normal", NORMAL_SECONDS_MAX, wrong_clock),
)
