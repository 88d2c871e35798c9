"""Whole conversations, repeated, shuffled and late, against an independent book of what has to come out
(G10).

Bytes go in through the respondent, the real host decides, and bytes come back. The journal says in which
order the messages took effect; in that order the book hears them too, and then every answer, the balance, the
day's counters, each transaction and the number of events of each type have to be what the book says.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import asyncpg
import msgspec
import pytest

from actors.clock import SystemClock
from actors.journal.memory import MemoryJournal
from actors.journal.memory_store import MemoryStore
from actors.journal.postgres import PostgresJournal
from engine.ids import Derived, derive
from engine.instant import to_ms
from tests.actors.shards.virtual_time import VirtualClock, run
from tests.conformance.book import Book, Said
from tests.conformance.conversation import Author, Delivery, Exchange, identity_of
from tests.conformance.line import CARD, CENTS, Line
from tests.conformance.peer import Document, decode
from tests.engine.build import NOW_MS, TENANT

CHAOS = os.environ.get("STANCHION_CHAOS") == "1"
CASES = int(os.environ.get("STANCHION_TEST_SEEDS", "20000" if CHAOS else "240"))
SLICES = 8
START = datetime.fromtimestamp(NOW_MS / 1000, UTC)
ACCOUNT = derive(CARD.id, Derived.ACCOUNT)
WIRED = ("authorize", "increment", "reverse", "present", "advise")


@dataclass
class Row:
    """One line of the journal."""

    kind: str
    command: dict[str, Any]
    at_ms: int


@dataclass
class Outcome:
    """What a conversation has left behind."""

    journal: list[Row]
    posted: int
    held: int
    day: tuple[str, int, int]
    transactions: list[tuple[int, int, int, int]]
    events: Counter[str]
    holds: Counter[str]


Answers = list[tuple[Delivery, bytes]]


async def talk(line: Line, deliveries: list[Delivery], dice: random.Random, *, waiting: bool) -> Answers:
    """Deliver everything at its time; hosts change now and then."""
    loop, began = asyncio.get_running_loop(), asyncio.get_running_loop().time()
    asked: list[tuple[Delivery, asyncio.Task[bytes]]] = []
    for delivery in deliveries:
        wait = began + delivery.at - loop.time()
        if waiting and wait > 0:
            await asyncio.sleep(wait)
        if dice.random() < 0.03:
            await line.renew()
        asked.append((delivery, asyncio.create_task(line.ask(delivery.payload))))
        if not waiting and dice.random() < 0.2:
            await asyncio.gather(*(task for _, task in asked))
    return [(delivery, await task) for delivery, task in asked]


# --- the two journals


def in_memory(seed: int, size: int, sales: int) -> tuple[Answers, Outcome]:
    """A conversation in virtual time."""

    async def main() -> tuple[Answers, Outcome]:
        dice = random.Random(seed)
        deliveries = Author(dice, START, size, sales, slow=dice.random() < 0.5).write()
        store = MemoryStore(VirtualClock().now_ms)
        line = Line(VirtualClock(), lambda name: MemoryJournal(store, name))
        await line.start()
        answers = await talk(line, deliveries, dice, waiting=True)
        await line.stop()
        return answers, left_in(store)

    return run(main())


def left_in(store: MemoryStore) -> Outcome:
    rows = [row for row in store.journal.rows.values() if row["actor_id"] == CARD.id]
    rows.sort(key=lambda row: int(row["seq"]))
    account, card = store.account(ACCOUNT), store.card(CARD.id)
    assert account is not None
    assert card is not None
    transactions = sorted(store.transactions.rows.values(), key=lambda row: int(row["seq"]))
    figures = ("approved_minor", "held_minor", "cleared_minor", "reversed_minor")
    return Outcome(
        [Row(row["kind"], msgspec.json.decode(row["command"]), row["recorded_at"]) for row in rows],
        account.posted_minor,
        account.held_minor,
        (card.day, card.day_count, card.day_amount_minor),
        [tuple(row[name] for name in figures) for row in transactions],
        Counter(row["type"] for row in store.events.rows.values()),
        Counter(row["state"] for row in store.holds.rows.values()),
    )


async def left_in_postgres(url: str) -> Outcome:
    connection = await asyncpg.connect(url)
    try:
        journal = await connection.fetch(
            "SELECT kind, command, recorded_at FROM journal WHERE actor_id = $1 ORDER BY seq", CARD.id
        )
        account = await connection.fetchrow(
            "SELECT posted_minor, held_minor FROM accounts WHERE id = $1", ACCOUNT
        )
        usage = await connection.fetchrow("SELECT day, day_count, day_amount_minor FROM card_usage")
        figures = "approved_minor, held_minor, cleared_minor, reversed_minor"
        transactions = await connection.fetch(f"SELECT {figures} FROM transactions ORDER BY seq")
        events = await connection.fetch("SELECT type FROM events")
        holds = await connection.fetch("SELECT state FROM holds")
    finally:
        await connection.close()
    assert account is not None
    assert usage is not None
    return Outcome(
        [Row(row["kind"], msgspec.json.decode(row["command"]), to_ms(row["recorded_at"])) for row in journal],
        account["posted_minor"],
        account["held_minor"],
        tuple(usage),
        [tuple(row) for row in transactions],
        Counter(row["type"] for row in events),
        Counter(row["state"] for row in holds),
    )


# --- the comparison


def row_identity(row: Row) -> tuple[str, ...]:
    """As ``conversation.identity_of``, of what the journal kept."""
    if row.kind == "present":
        return ("22", f"{row.command['arn']}{row.command.get('sequence', 1):02d}")
    wire = row.command["wire"]
    return ({"reverse": "4", "advise": "12"}.get(row.kind, "10"), wire["stan"], wire["transmitted_at"])


def judge(answers: Answers, outcome: Outcome) -> None:
    """Everything that came out is what the book says."""
    exchanges = {identity_of(delivery.document): delivery.exchange for delivery, _ in answers}
    rows = [row for row in outcome.journal if row.kind in WIRED]
    assert len({row_identity(row) for row in rows}) == len(rows) == len(exchanges)
    book, said = Book(CENTS), dict[int, tuple[int, Said]]()
    for row in rows:
        exchange = exchanges[row_identity(row)]
        content = won(exchange, row)
        said[id(exchange)] = content, book.hear(exchange.contents[content], row.at_ms)
    compare_answers(answers, said)
    assert (outcome.posted, outcome.held) == (book.posted, book.held)
    assert outcome.day == (book.day, book.day_count, book.day_amount)
    assert outcome.transactions == list(book.figures())
    # The card and its first money were told of before the conversation.
    beginning = Counter({"programme.created": 1, "card.created": 1, "ledger.entry.posted": 1})
    assert outcome.events == +(book.events + beginning)
    assert outcome.holds["held"] == sum(sale.open for sale in book.sales)


def won(exchange: Exchange, row: Row) -> int:
    """Which content of an exchange was the first."""
    if len(exchange.contents) == 1:
        return 0
    amounts = [int(content["4"]) for content in exchange.contents]
    return amounts.index(row.command["amount_minor"])


def compare_answers(answers: Answers, said: dict[int, tuple[int, Said]]) -> None:
    """The same to everyone who asked the same, 94 to whoever asked something else under its identity."""
    heard: dict[tuple[Any, ...], set[bytes]] = defaultdict(set)
    for delivery, payload in answers:
        answer = decode(payload)
        content, expected = said[id(delivery.exchange)]
        if delivery.content != content:
            assert answer["39"] == "94"
            continue
        assert answer["39"] == expected.code
        if expected.code == "10":
            assert int(answer["4"]) == expected.amount
        trace = tuple(delivery.document[number] for number in ("7", "11", "37"))
        heard[id(delivery.exchange), answer["t"], trace].add(payload)
    assert all(len(payloads) == 1 for payloads in heard.values())


@pytest.mark.parametrize("slice_", range(SLICES))
def test_small_conversations(slice_: int) -> None:
    alone = os.environ.get("STANCHION_TEST_SEED")
    for seed in [int(alone)] if alone else range(slice_, CASES, SLICES):
        try:
            judge(*in_memory(seed, 12, 2))
        except BaseException as failure:
            failure.add_note(f"STANCHION_TEST_SEED={seed}")
            raise


def test_a_conversation_of_500_exchanges() -> None:
    judge(*in_memory(1, 500, 60))


def test_the_conversations_are_bad_enough() -> None:
    """Of what they are for, everything happens."""
    seen: Counter[str] = Counter()
    for seed in range(40):
        answers, outcome = in_memory(seed, 12, 2)
        seen.update(outcome.holds)
        seen.update(row.kind for row in outcome.journal)
        seen.update(f"answer {decode(payload)['39']}" for _, payload in answers)
        seen["reversals before originals"] += early(answers)
    wanted = {"held", "released", "captured", "lapsed", *WIRED, "reversals before originals"}
    wanted |= {f"answer {code}" for code in ("00", "10", "12", "51", "85", "94")}
    assert {name for name in wanted if seen[name] < 5} == set()


def early(answers: Answers) -> int:
    """Reversals that were delivered before the message which they name."""
    first: dict[tuple[str, str], int] = {}
    for number, (delivery, _) in enumerate(answers):
        first.setdefault((delivery.document["11"], delivery.document["7"]), number)
    named: list[tuple[int, Document]] = [
        (number, delivery.document)
        for number, (delivery, _) in enumerate(answers)
        if "90" in delivery.document
    ]
    return sum(first.get((said["90"][4:10], said["90"][10:20]), 0) > number for number, said in named)


@pytest.mark.parametrize("seed", range(20 if CHAOS else 2))
async def test_on_postgres(seed: int, database_url: str) -> None:
    dice = random.Random(seed)
    deliveries = Author(dice, START, 500 if CHAOS else 120, 12, slow=False).write()
    connection = await asyncpg.connect(database_url)
    await connection.execute("INSERT INTO tenants (id, name) VALUES ($1, 'acme')", TENANT)
    await connection.close()
    line = Line(SystemClock(), lambda name: PostgresJournal(database_url, name, timeout_seconds=20.0))
    await line.start()
    answers = await talk(line, deliveries, dice, waiting=False)
    await line.stop()
    judge(answers, await left_in_postgres(database_url))
