"""Faults around the outcome of single messages: commits whose reply is lost, stale repeats, rows that cannot
be decoded."""

from __future__ import annotations

import asyncio
import signal
import time
import urllib.request
from functools import partial
from typing import Final

from engine.limits import AUTHORIZATION_DEADLINE_MS
from ops.chaos.errors import NotInjectedError
from ops.chaos.faults import Fault, Outcome, expect_unnoticed, strike
from ops.chaos.shoppers import Till
from ops.chaos.stage import Stage
from ops.histories.operations import Operation

REVERSED_SECONDS_MAX: Final = 15.0
"""From the end of the fault to the last late reversal."""
LATE_SECONDS: Final = 0.8
"""How late PostgreSQL's bytes arrive each way, so that a host is caught between a commit and its answer; both
ways together are less than the time limit of a commit."""
STALE_PER_SECOND: Final = 10
STALE_SECONDS: Final = 4
UNREADABLE: Final = '[{"kind":"moon_phase","phase":"full"}]'

_COMMITTED: Final = """
    SELECT t.held_minor FROM journal j JOIN transactions t ON t.id = j.authorization_id
    WHERE j.actor_id = $1::text::uuid AND j.kind = 'authorize'
      AND j.command::jsonb -> 'wire' ->> 'stan' = $2 AND j.command::jsonb -> 'wire' ->> 'rrn' = $3"""


async def commit_and_die(stage: Stage) -> Outcome:
    """A host's commits happen, it is killed while their answers are late, and no host can take over before
    the network's deadline: 91 on the wire for what is in the journal. The figure: seconds until nothing of it
    is held any more."""
    name, pid, tills = await _busy_host(stage)
    stage.to_postgres.delay_seconds = LATE_SECONDS
    began = time.monotonic()
    buying = [asyncio.create_task(till.buy(repeats=0)) for till in tills]
    lost: list[Operation] = []
    try:

        async def committed() -> bool:
            lost[:] = [each for each in _unanswered(stage, began) if await _held(stage, each) is not None]
            return bool(lost)

        await stage.until(committed, "something is committed and not answered", 3 * LATE_SECONDS)
        strike(signal.SIGKILL, [pid])
        stage.to_postgres.hold()
        stage.to_postgres.delay_seconds = 0.0
        await asyncio.sleep(max(0.0, began + AUTHORIZATION_DEADLINE_MS / 1000 + 0.3 - time.monotonic()))
    except TimeoutError:
        raise NotInjectedError(f"{name} answered everything that it committed") from None
    finally:
        stage.to_postgres.delay_seconds = 0.0
        stage.to_postgres.release()
        released = time.monotonic()
        await asyncio.gather(*buying)
    outcome = Outcome(0.0, rounds=len(lost))
    for each in lost:
        try:
            await stage.until(partial(_settled, stage, each), "it is reversed", REVERSED_SECONDS_MAX)
        except TimeoutError:
            outcome.broken.append(f"{each.stan} was refused with {each.response_code} and stays held")
    outcome.figure = time.monotonic() - released
    return outcome


async def stale_repeats(stage: Stage) -> Outcome:
    """Originals that were answered long ago come again, unmarked, ten a second. The figure: refused commits
    of all hosts for each repeat, those of callers that repeat their idempotency keys included."""
    _, pid, tills = await _busy_host(stage)
    sales = [(till, *till.original()) for till in tills[: STALE_PER_SECOND * STALE_SECONDS]]
    first = [await till.say(message, amount) for till, message, amount in sales]
    # Their owner's memory is lost, and nine newer answers of each card are read instead.
    for _ in range(9):
        await stage.spend_at_once(till for till, _, _ in sales)
    strike(signal.SIGKILL, [pid])
    await stage.back()
    failures, began, repeats = await _figure(stage, "stanchion_commit_failures_total"), time.monotonic(), 0
    outcome = Outcome(0.0)
    for (till, message, amount), original in zip(sales, first, strict=True):
        again = await till.say(message, amount)
        repeats += 1
        same = (again.response_code, again.authorization_id) == (
            original.response_code,
            original.authorization_id,
        )
        outcome.expect(same, f"{again.stan}: {again.response_code} instead of {original.response_code}")
        await asyncio.sleep(1 / STALE_PER_SECOND)
    expect_unnoticed(stage, began, outcome)
    outcome.figure = (await _figure(stage, "stanchion_commit_failures_total") - failures) / repeats
    return outcome


async def unreadable_row(stage: Stage) -> Outcome:
    """A card gets controls of a kind that no release knows, and its owner dies: the next one has to read it.
    The figure: cards beside it without an answer."""
    _, pid, tills = await _busy_host(stage)
    poisoned, *others = tills
    card_id = poisoned.plastic.card_id
    (row,) = await stage.fetch("SELECT controls FROM cards WHERE id = $1::text::uuid", card_id)
    sql = "UPDATE cards SET controls = $2 WHERE id = $1::text::uuid"
    unreadable = await _figure(stage, "stanchion_unreadable_rows_total")
    await stage.fetch(sql, card_id, UNREADABLE)
    try:
        strike(signal.SIGKILL, [pid])
        answered = await stage.spend_at_once(others)
        refused = await poisoned.buy(repeats=0)
        outcome = Outcome(float(sum(each.outcome != "ok" for each in answered)))
        outcome.expect(
            refused.response_code == "96", f"the unreadable card was answered {refused.response_code}"
        )
        counted = await _figure(stage, "stanchion_unreadable_rows_total")
        outcome.expect(counted > unreadable, "no metric has counted the row")
    finally:
        await stage.fetch(sql, card_id, row["controls"])
    again = await poisoned.buy()
    outcome.expect(again.outcome == "ok", "the repaired card is not served")
    return outcome


async def _busy_host(stage: Stage) -> tuple[str, int, list[Till]]:
    hosts = await stage.hosts()
    if len(hosts) < 2:
        raise NotInjectedError("there are no two hosts")
    for name in sorted(hosts, key=lambda _: stage.dice.random()):
        tills = stage.tills_of(await stage.shards_of(name))
        if len(tills) > 1:
            return name, hosts[name], tills
    raise NotInjectedError("no host has cards")


def _unanswered(stage: Stage, began: float) -> list[Operation]:
    """Authorizations that began since then and have no answer yet."""
    return [
        each for each in stage.crowd.history.since(began) if each.kind == "authorize" and each.ended is None
    ]


async def _settled(stage: Stage, operation: Operation) -> bool:
    """Whether the message holds nothing, or a repeat of it was answered."""
    answered = any(
        each.identity == operation.identity and each.outcome == "ok"
        for each in stage.crowd.history.since(operation.began)
    )
    return answered or not await _held(stage, operation)


async def _held(stage: Stage, operation: Operation) -> int | None:
    """What the message's authorization holds; ``None`` when it was never committed."""
    rows = await stage.fetch(_COMMITTED, operation.card_id, operation.stan, operation.rrn)
    return int(rows[0]["held_minor"]) if rows else None


async def _figure(stage: Stage, name: str) -> float:
    """The sum of a counter over all processes."""

    def read() -> str:
        with urllib.request.urlopen(stage.record["metrics_url"], timeout=10) as answer:
            return str(answer.read().decode())

    lines = (await asyncio.to_thread(read)).splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


OUTCOME_FAULTS: Final = (
    Fault(
        "G11",
        "a host that commits and dies before its reply",
        "s until nothing refused is held",
        REVERSED_SECONDS_MAX,
        commit_and_die,
    ),
    Fault("G10", "stale repeats under load", "refused commits for each", None, stale_repeats),
    Fault("G3", "a row that cannot be decoded", "other cards without an answer", 0, unreadable_row),
)
