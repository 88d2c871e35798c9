"""Faults that concern single messages: commits with a lost reply, stale repeats, rows that cannot be
decoded."""

from __future__ import annotations

import asyncio
import signal
import time
import urllib.request
from functools import partial
from typing import Final

from engine.iso8583.message import Message, as_repeat
from engine.limits import ACTIVATION_ANSWERS, AUTHORIZATION_DEADLINE_MS
from ops.chaos.environment.processes import signal_processes
from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.expectations import expect_unnoticed
from ops.chaos.faults.fault import Fault, Outcome
from ops.chaos.rig import HOSTS, Rig
from ops.chaos.traffic.shoppers import Terminal
from ops.histories.operations import Operation

REVERSED_SECONDS_MAX: Final = 15.0
"""From the end of the fault to the last late reversal."""
COMMITTED_SECONDS_MAX: Final = 2.0
"""Shorter than a host's timeout for a commit."""
STALE_PER_SECOND: Final = 10
STALE: Final = 20
"""Maximum number of cards whose old messages are repeated."""
UNREADABLE: Final = '[{"kind":"moon_phase","phase":"full"}]'

_COMMITTED: Final = """
    SELECT t.held_minor FROM transactions t JOIN journal j ON j.actor_id = t.card_id AND j.seq = t.seq
    WHERE t.card_id = $1::text::uuid AND t.rrn = $3 AND j.command::jsonb -> 'wire' ->> 'stan' = $2"""


async def commit_and_die(rig: Rig) -> Outcome:
    """A host commits authorizations while PostgreSQL's answers are held back, and is then killed. No host can
    take over before the network's deadline, so the wire answers 91 for committed authorizations. Figure:
    seconds until none of them holds an amount."""
    name, pid, terminals = await _busy_host(rig)
    sales = [(terminal, *terminal.new_purchase()) for terminal in terminals]
    messages = [(terminal.plastic.card_id, message) for terminal, message, _ in sales]
    lost: list[Message] = []
    rig.to_postgres.hold_answers()
    began = time.monotonic()
    sending = [asyncio.create_task(terminal.send(message, amount)) for terminal, message, amount in sales]
    try:

        async def committed() -> bool:
            lost[:] = [each for card_id, each in messages if await _held(rig, card_id, each)]
            if not lost:
                # The open transaction is an earlier one; the next one contains these authorizations.
                rig.to_postgres.pass_answers()
            return bool(lost)

        await rig.until(committed, "authorizations are committed", COMMITTED_SECONDS_MAX)
        signal_processes(signal.SIGKILL, [pid])
        await asyncio.sleep(max(0.0, began + AUTHORIZATION_DEADLINE_MS / 1000 + 0.5 - time.monotonic()))
    except TimeoutError:
        raise NotInjectedError(f"{name} committed no authorization") from None
    finally:
        rig.to_postgres.release_answers()
        released = time.monotonic()
        operations = await asyncio.gather(*sending)
    outcome = Outcome(0.0, rounds=len(lost))
    for each in operations:
        outcome.expect(each.response_code == "91", f"{each.stan} was answered {each.response_code}")
    try:
        await rig.until(partial(_nothing_held, rig, messages), "all are reversed", REVERSED_SECONDS_MAX)
    except TimeoutError:
        outcome.broken.append("an authorization answered with 91 still holds an amount")
    outcome.figure = time.monotonic() - released
    return outcome


async def stale_repeats(rig: Rig) -> Outcome:
    """Repeat messages that were answered long ago, ten a second, after their owner has restarted: first
    repeats that are marked as such, which must not cost refused commits, then unmarked ones. Figure: refused
    commits of all hosts per unmarked repeat."""
    _, pid, terminals = await _busy_host(rig)
    marked = await _purchases(terminals[:STALE])
    unmarked = await _purchases(terminals[:STALE])
    # The next owner loads the newest answers of each card; these purchases push the old ones out.
    for _ in range(ACTIVATION_ANSWERS + 1):
        await rig.spend_at_once(terminals[:STALE])
    signal_processes(signal.SIGKILL, [pid])
    # Concurrent copies of API requests also cost refused commits.
    await rig.callers.end()
    try:
        await rig.recovered()
        began, outcome = time.monotonic(), Outcome(0.0)
        failures = [await _refused(rig)]
        for sales, named in ((marked, as_repeat), (unmarked, lambda message: message)):
            await _repeat([(terminal, named(message), first) for terminal, message, first in sales], outcome)
            failures.append(await _refused(rig))
        expect_unnoticed(rig, began, outcome)
    finally:
        await rig.callers.begin()
    before, between, after = failures
    outcome.expect(between == before, f"repeats marked as such cost {between - before:.0f} refused commits")
    outcome.figure = (after - between) / len(unmarked)
    outcome.rounds = len(marked) + len(unmarked)
    return outcome


_SentPurchase = tuple[Terminal, Message, Operation]


async def _purchases(terminals: list[Terminal]) -> list[_SentPurchase]:
    """A new purchase at each terminal: its message and its operation."""
    sales = [(terminal, *terminal.new_purchase()) for terminal in terminals]
    operations = await asyncio.gather(
        *(terminal.send(message, amount) for terminal, message, amount in sales)
    )
    return [(terminal, message, each) for (terminal, message, _), each in zip(sales, operations, strict=True)]


async def _repeat(sales: list[_SentPurchase], outcome: Outcome) -> None:
    """Repeat each message, ten a second, and expect the same answer as before."""
    for terminal, message, first in sales:
        again = await terminal.send(message, first.amount_minor)
        same = (again.response_code, again.authorization_id) == (first.response_code, first.authorization_id)
        outcome.expect(same, f"{again.stan}: {again.response_code} instead of {first.response_code}")
        await asyncio.sleep(1 / STALE_PER_SECOND)


async def unreadable_row(rig: Rig) -> Outcome:
    """A card gets a control kind that no release knows, and its owner is killed: the next owner has to load
    the row. Figure: other cards without an answer."""
    _, pid, terminals = await _busy_host(rig)
    unreadable_terminal, *others = terminals
    card_id = unreadable_terminal.plastic.card_id
    (row,) = await rig.fetch("SELECT controls FROM cards WHERE id = $1::text::uuid", card_id)
    sql = "UPDATE cards SET controls = $2 WHERE id = $1::text::uuid"
    unreadable = await _figure(rig, "stanchion_unreadable_rows_total")
    await rig.fetch(sql, card_id, UNREADABLE)
    try:
        signal_processes(signal.SIGKILL, [pid])
        answered = await rig.spend_at_once(others)
        refused = await unreadable_terminal.purchase(repeats=0)
        outcome = Outcome(float(sum(each.outcome != "ok" for each in answered)))
        outcome.expect(
            refused.response_code == "96", f"the unreadable card was answered {refused.response_code}"
        )
        counted = await _figure(rig, "stanchion_unreadable_rows_total")
        outcome.expect(counted > unreadable, "no metric counted the row")
    finally:
        await rig.fetch(sql, card_id, row["controls"])
    again = await unreadable_terminal.purchase()
    outcome.expect(again.outcome == "ok", "the repaired card is not answered")
    return outcome


async def _busy_host(rig: Rig) -> tuple[str, int, list[Terminal]]:
    hosts = await rig.hosts()
    if len(hosts) < 2:
        raise NotInjectedError("there are fewer than two hosts")
    for name in sorted(hosts, key=lambda _: rig.dice.random()):
        terminals = rig.terminals_of(await rig.shards_of(name))
        if len(terminals) > 1:
            return name, hosts[name], terminals
    raise NotInjectedError("no host owns two cards")


async def _nothing_held(rig: Rig, messages: list[tuple[str, Message]]) -> bool:
    return not any([await _held(rig, card_id, message) for card_id, message in messages])


async def _held(rig: Rig, card_id: str, message: Message) -> int | None:
    """The held amount of the message's authorization; ``None`` if it was never committed."""
    rows = await rig.fetch(_COMMITTED, card_id, message.fields[11], message.fields[37])
    return int(rows[0]["held_minor"]) if rows else None


async def _refused(rig: Rig) -> float:
    """The number of refused and unknown commits of all hosts."""
    figures: list[float] = []

    async def all_counted() -> bool:
        figures[:] = await _figures(rig, "stanchion_commit_failures_total")
        return len(figures) >= HOSTS

    await rig.until(all_counted, "all hosts report metrics")
    return sum(figures)


async def _figure(rig: Rig, name: str) -> float:
    """The sum of a counter over all processes."""
    return sum(await _figures(rig, name))


async def _figures(rig: Rig, name: str) -> list[float]:
    """A counter's values, one for each process that answers."""

    def read() -> str:
        with urllib.request.urlopen(rig.record["metrics_url"], timeout=10) as answer:
            return str(answer.read().decode())

    lines = (await asyncio.to_thread(read)).splitlines()
    return [float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)]


MESSAGE_FAULTS: Final = (
    Fault(
        "G11",
        "a host that commits and dies before its reply",
        "s until reversed",
        REVERSED_SECONDS_MAX,
        commit_and_die,
    ),
    Fault("G10", "stale repeats under load", "refused commits per unmarked repeat", 1, stale_repeats),
    Fault("G3", "a row that cannot be decoded", "other cards unanswered", 0, unreadable_row),
)
