"""Faults around the outcome of single messages: commits whose reply is lost, stale repeats, rows that cannot
be decoded."""

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
"""Less than a host waits for the answer to a commit."""
STALE_PER_SECOND: Final = 10
STALE: Final = 20
"""Cards whose old messages come again, at most."""
UNREADABLE: Final = '[{"kind":"moon_phase","phase":"full"}]'

_COMMITTED: Final = """
    SELECT t.held_minor FROM journal j JOIN transactions t ON t.id = j.authorization_id
    WHERE j.actor_id = $1::text::uuid AND j.kind = 'authorize'
      AND j.command::jsonb -> 'wire' ->> 'stan' = $2 AND j.command::jsonb -> 'wire' ->> 'rrn' = $3"""


async def commit_and_die(rig: Rig) -> Outcome:
    """PostgreSQL's answers are held, a host's commits happen without them, it is killed, and no host can take
    over before the network's deadline: 91 on the wire for authorizations that are in the journal. The figure:
    seconds until nothing of them is held."""
    name, pid, terminals = await _busy_host(rig)
    sales = [(terminal, *terminal.original()) for terminal in terminals]
    messages = [(terminal.plastic.card_id, message) for terminal, message, _ in sales]
    lost: list[Message] = []
    rig.to_postgres.hold_answers()
    began = time.monotonic()
    saying = [asyncio.create_task(terminal.say(message, amount)) for terminal, message, amount in sales]
    try:

        async def committed() -> bool:
            lost[:] = [each for card_id, each in messages if await _held(rig, card_id, each)]
            if not lost:
                # The transaction that waits for its answer came before: the next one has ours.
                rig.to_postgres.pass_answers()
            return bool(lost)

        await rig.until(committed, "authorizations are committed", COMMITTED_SECONDS_MAX)
        signal_processes(signal.SIGKILL, [pid])
        await asyncio.sleep(max(0.0, began + AUTHORIZATION_DEADLINE_MS / 1000 + 0.5 - time.monotonic()))
    except TimeoutError:
        raise NotInjectedError(f"{name} has committed no authorization") from None
    finally:
        rig.to_postgres.release_answers()
        released = time.monotonic()
        said = await asyncio.gather(*saying)
    outcome = Outcome(0.0, rounds=len(lost))
    for each in said:
        outcome.expect(each.response_code == "91", f"{each.stan} was answered {each.response_code}")
    try:
        await rig.until(partial(_nothing_held, rig, messages), "all are reversed", REVERSED_SECONDS_MAX)
    except TimeoutError:
        outcome.broken.append("an authorization was refused with 91 and stays held")
    outcome.figure = time.monotonic() - released
    return outcome


async def stale_repeats(rig: Rig) -> Outcome:
    """Messages that were answered long ago come again, ten a second, and their owner has lost its memory:
    first marked as repeats, which cost no refused commit, then others that are not marked. The figure:
    refused commits of all hosts for each repeat that is not marked."""
    _, pid, terminals = await _busy_host(rig)
    marked = await _sold(terminals[:STALE])
    unmarked = await _sold(terminals[:STALE])
    # The next owner reads the newest answers of each card, and these are no longer among them.
    for _ in range(ACTIVATION_ANSWERS + 1):
        await rig.spend_at_once(terminals[:STALE])
    signal_processes(signal.SIGKILL, [pid])
    # Copies of one request to the API are not marked, and are refused, too.
    await rig.callers.end()
    try:
        await rig.back()
        began, outcome = time.monotonic(), Outcome(0.0)
        failures = [await _refused(rig)]
        for sales, named in ((marked, as_repeat), (unmarked, lambda message: message)):
            await _say_again(
                [(terminal, named(message), heard) for terminal, message, heard in sales], outcome
            )
            failures.append(await _refused(rig))
        expect_unnoticed(rig, began, outcome)
    finally:
        await rig.callers.begin()
    before, between, after = failures
    outcome.expect(between == before, f"repeats marked as such cost {between - before:.0f} refused commits")
    outcome.figure = (after - between) / len(unmarked)
    outcome.rounds = len(marked) + len(unmarked)
    return outcome


_Sold = tuple[Terminal, Message, Operation]


async def _sold(terminals: list[Terminal]) -> list[_Sold]:
    """A new purchase on each card, as it was said, and what was heard."""
    sales = [(terminal, *terminal.original()) for terminal in terminals]
    heard = await asyncio.gather(*(terminal.say(message, amount) for terminal, message, amount in sales))
    return [(terminal, message, each) for (terminal, message, _), each in zip(sales, heard, strict=True)]


async def _say_again(sales: list[_Sold], outcome: Outcome) -> None:
    """Each message once more, ten a second: its answer must be the one that was heard before."""
    for terminal, message, first in sales:
        again = await terminal.say(message, first.amount_minor)
        same = (again.response_code, again.authorization_id) == (first.response_code, first.authorization_id)
        outcome.expect(same, f"{again.stan}: {again.response_code} instead of {first.response_code}")
        await asyncio.sleep(1 / STALE_PER_SECOND)


async def unreadable_row(rig: Rig) -> Outcome:
    """A card gets controls of a kind that no release knows, and its owner dies: the next one has to read it.
    The figure: cards beside it without an answer."""
    _, pid, terminals = await _busy_host(rig)
    poisoned, *others = terminals
    card_id = poisoned.plastic.card_id
    (row,) = await rig.fetch("SELECT controls FROM cards WHERE id = $1::text::uuid", card_id)
    sql = "UPDATE cards SET controls = $2 WHERE id = $1::text::uuid"
    unreadable = await _figure(rig, "stanchion_unreadable_rows_total")
    await rig.fetch(sql, card_id, UNREADABLE)
    try:
        signal_processes(signal.SIGKILL, [pid])
        answered = await rig.spend_at_once(others)
        refused = await poisoned.buy(repeats=0)
        outcome = Outcome(float(sum(each.outcome != "ok" for each in answered)))
        outcome.expect(
            refused.response_code == "96", f"the unreadable card was answered {refused.response_code}"
        )
        counted = await _figure(rig, "stanchion_unreadable_rows_total")
        outcome.expect(counted > unreadable, "no metric has counted the row")
    finally:
        await rig.fetch(sql, card_id, row["controls"])
    again = await poisoned.buy()
    outcome.expect(again.outcome == "ok", "the repaired card is not served")
    return outcome


async def _busy_host(rig: Rig) -> tuple[str, int, list[Terminal]]:
    hosts = await rig.hosts()
    if len(hosts) < 2:
        raise NotInjectedError("there are no two hosts")
    for name in sorted(hosts, key=lambda _: rig.dice.random()):
        terminals = rig.terminals_of(await rig.shards_of(name))
        if len(terminals) > 1:
            return name, hosts[name], terminals
    raise NotInjectedError("no host has cards")


async def _nothing_held(rig: Rig, messages: list[tuple[str, Message]]) -> bool:
    return not any([await _held(rig, card_id, message) for card_id, message in messages])


async def _held(rig: Rig, card_id: str, message: Message) -> int | None:
    """What the message's authorization holds; ``None`` when it was never committed."""
    rows = await rig.fetch(_COMMITTED, card_id, message.fields[11], message.fields[37])
    return int(rows[0]["held_minor"]) if rows else None


async def _refused(rig: Rig) -> float:
    """Commits that were refused, or whose outcome was not known, of all hosts."""
    figures: list[float] = []

    async def all_counted() -> bool:
        figures[:] = await _figures(rig, "stanchion_commit_failures_total")
        return len(figures) >= HOSTS

    await rig.until(all_counted, "every host tells its figures")
    return sum(figures)


async def _figure(rig: Rig, name: str) -> float:
    """The sum of a counter over all processes."""
    return sum(await _figures(rig, name))


async def _figures(rig: Rig, name: str) -> list[float]:
    """A counter of each process that answers."""

    def read() -> str:
        with urllib.request.urlopen(rig.record["metrics_url"], timeout=10) as answer:
            return str(answer.read().decode())

    lines = (await asyncio.to_thread(read)).splitlines()
    return [float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)]


MESSAGE_FAULTS: Final = (
    Fault(
        "G11",
        "a host that commits and dies before its reply",
        "s until nothing refused is held",
        REVERSED_SECONDS_MAX,
        commit_and_die,
    ),
    Fault("G10", "stale repeats under load", "refused commits for each unmarked one", 1, stale_repeats),
    Fault("G3", "a row that cannot be decoded", "other cards without an answer", 0, unreadable_row),
)
