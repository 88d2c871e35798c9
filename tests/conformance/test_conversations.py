"""Conversations with repeated, reordered and late messages match an independent model (G10).

The messages pass the real respondent and host. The journal has the order in which they took effect. The model
applies them in that order; then every answer, the balance, the counters of the day, each transaction and the
number of events of each type must be equal.
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
from tests.support.actors.shards.virtual_time import VirtualClock, run
from tests.support.conformance.card_model import CardModel, ExpectedAnswer
from tests.support.conformance.conversation import ConversationGenerator, Delivery, Exchange, identity_of
from tests.support.conformance.in_process import CARD, CENTS, InProcessPlatform
from tests.support.conformance.peer import Document, decode
from tests.support.engine.build import NOW_MS, TENANT

CHAOS = os.environ.get("STANCHION_CHAOS") == "1"
CASES = int(os.environ.get("STANCHION_TEST_SEEDS", "20000" if CHAOS else "240"))
SLICES = 8
START = datetime.fromtimestamp(NOW_MS / 1000, UTC)
ACCOUNT = derive(CARD.id, Derived.ACCOUNT)
WIRED = ("authorize", "increment", "reverse", "present", "advise")


@dataclass
class Row:
    """One row of the journal."""

    kind: str
    command: dict[str, Any]
    at_ms: int


@dataclass
class Outcome:
    """The state after a conversation."""

    journal: list[Row]
    posted: int
    held: int
    day: tuple[str, int, int]
    transactions: list[tuple[int, int, int, int]]
    events: Counter[str]
    holds: Counter[str]


Answers = list[tuple[Delivery, bytes]]


async def deliver_all(
    platform: InProcessPlatform, deliveries: list[Delivery], rng: random.Random, *, waiting: bool
) -> Answers:
    """Deliver all messages at their time, and replace the host at random."""
    loop, began = asyncio.get_running_loop(), asyncio.get_running_loop().time()
    pending: list[tuple[Delivery, asyncio.Task[bytes]]] = []
    for delivery in deliveries:
        wait = began + delivery.at - loop.time()
        if waiting and wait > 0:
            await asyncio.sleep(wait)
        if rng.random() < 0.03:
            await platform.replace_host()
        pending.append((delivery, asyncio.create_task(platform.exchange(delivery.payload))))
        if not waiting and rng.random() < 0.2:
            await asyncio.gather(*(task for _, task in pending))
    return [(delivery, await task) for delivery, task in pending]


# --- the two journals


def in_memory(seed: int, size: int, sales: int) -> tuple[Answers, Outcome]:
    """Run a conversation in virtual time on the in-memory journal."""

    async def main() -> tuple[Answers, Outcome]:
        rng = random.Random(seed)
        deliveries = ConversationGenerator(rng, START, size, sales, slow=rng.random() < 0.5).generate()
        store = MemoryStore(VirtualClock().now_ms)
        platform = InProcessPlatform(VirtualClock(), lambda name: MemoryJournal(store, name))
        await platform.start()
        answers = await deliver_all(platform, deliveries, rng, waiting=True)
        await platform.stop()
        return answers, state_of_store(store)

    return run(main())


def state_of_store(store: MemoryStore) -> Outcome:
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


async def state_of_postgres(url: str) -> Outcome:
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
    """``conversation.identity_of`` of a journaled command."""
    if row.kind == "present":
        return ("22", f"{row.command['arn']}{row.command.get('sequence', 1):02d}")
    wire = row.command["wire"]
    return ({"reverse": "4", "advise": "12"}.get(row.kind, "10"), wire["stan"], wire["transmitted_at"])


def compare(answers: Answers, outcome: Outcome) -> None:
    """Assert that answers and state are those of the model."""
    exchanges = {identity_of(delivery.document): delivery.exchange for delivery, _ in answers}
    rows = [row for row in outcome.journal if row.kind in WIRED]
    assert len({row_identity(row) for row in rows}) == len(rows) == len(exchanges)
    model, expected_answers = CardModel(CENTS), dict[int, tuple[int, ExpectedAnswer]]()
    for row in rows:
        exchange = exchanges[row_identity(row)]
        content = executed_content(exchange, row)
        expected_answers[id(exchange)] = content, model.apply(exchange.contents[content], row.at_ms)
    compare_answers(answers, expected_answers)
    assert (outcome.posted, outcome.held) == (model.posted, model.held)
    assert outcome.day == (model.day, model.day_count, model.day_amount)
    assert outcome.transactions == list(model.figures())
    # Events from before the conversation.
    initial_events = Counter({"programme.created": 1, "card.created": 1, "ledger.entry.posted": 1})
    assert outcome.events == +(model.events + initial_events)
    assert outcome.holds["held"] == sum(sale.open for sale in model.sales)


def executed_content(exchange: Exchange, row: Row) -> int:
    """Index of the content that was executed."""
    if len(exchange.contents) == 1:
        return 0
    amounts = [int(content["4"]) for content in exchange.contents]
    return amounts.index(row.command["amount_minor"])


def compare_answers(answers: Answers, expected_answers: dict[int, tuple[int, ExpectedAnswer]]) -> None:
    """Equal messages get equal bytes; other content under the same identity gets 94."""
    answers_by_message: dict[tuple[Any, ...], set[bytes]] = defaultdict(set)
    for delivery, payload in answers:
        answer = decode(payload)
        content, expected = expected_answers[id(delivery.exchange)]
        if delivery.content != content:
            assert answer["39"] == "94"
            continue
        assert answer["39"] == expected.code
        if expected.code == "10":
            assert int(answer["4"]) == expected.amount
        trace = tuple(delivery.document[number] for number in ("7", "11", "37"))
        answers_by_message[id(delivery.exchange), answer["t"], trace].add(payload)
    assert all(len(payloads) == 1 for payloads in answers_by_message.values())


@pytest.mark.parametrize("slice_", range(SLICES))
def test_short_conversations_match_the_model(slice_: int) -> None:
    alone = os.environ.get("STANCHION_TEST_SEED")
    for seed in [int(alone)] if alone else range(slice_, CASES, SLICES):
        try:
            compare(*in_memory(seed, 12, 2))
        except BaseException as failure:
            failure.add_note(f"STANCHION_TEST_SEED={seed}")
            raise


def test_conversation_of_500_exchanges_matches_the_model() -> None:
    compare(*in_memory(1, 500, 60))


def test_generated_conversations_cover_all_outcomes() -> None:
    """The conversations contain every kind of message, answer and hold state."""
    seen: Counter[str] = Counter()
    for seed in range(40):
        answers, outcome = in_memory(seed, 12, 2)
        seen.update(outcome.holds)
        seen.update(row.kind for row in outcome.journal)
        seen.update(f"answer {decode(payload)['39']}" for _, payload in answers)
        seen["reversals before originals"] += reversals_before_originals(answers)
    wanted = {"held", "released", "captured", "lapsed", *WIRED, "reversals before originals"}
    wanted |= {f"answer {code}" for code in ("00", "10", "12", "51", "85", "94")}
    assert {name for name in wanted if seen[name] < 5} == set()


def reversals_before_originals(answers: Answers) -> int:
    """Number of reversals delivered before the message that they name."""
    first: dict[tuple[str, str], int] = {}
    for number, (delivery, _) in enumerate(answers):
        first.setdefault((delivery.document["11"], delivery.document["7"]), number)
    named: list[tuple[int, Document]] = [
        (number, delivery.document)
        for number, (delivery, _) in enumerate(answers)
        if "90" in delivery.document
    ]
    return sum(
        first.get((document["90"][4:10], document["90"][10:20]), 0) > number for number, document in named
    )


@pytest.mark.parametrize("seed", range(20 if CHAOS else 2))
async def test_conversation_on_postgres_matches_the_model(seed: int, database_url: str) -> None:
    rng = random.Random(seed)
    deliveries = ConversationGenerator(rng, START, 500 if CHAOS else 120, 12, slow=False).generate()
    connection = await asyncpg.connect(database_url)
    await connection.execute("INSERT INTO tenants (id, name) VALUES ($1, 'acme')", TENANT)
    await connection.close()
    platform = InProcessPlatform(
        SystemClock(), lambda name: PostgresJournal(database_url, name, timeout_seconds=20.0)
    )
    await platform.start()
    answers = await deliver_all(platform, deliveries, rng, waiting=False)
    await platform.stop()
    compare(answers, await state_of_postgres(database_url))
