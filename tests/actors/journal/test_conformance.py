"""Both journals keep one contract: three suites run on each, and one history through both."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from actors.journal.memory_store import MemoryStore
from actors.journal.memory_tables import Table
from actors.journal.rows import IdempotencyRow
from engine.commands import Advise, Command, Expire, Present, Reverse, reference_of_message
from tests.actors.journal.backends import TABLES, Backend, MemoryBackend, PostgresBackend
from tests.actors.journal.cases import EVERY_CONTROL
from tests.actors.journal.owner import Owner
from tests.actors.journal.ownership import Ownership
from tests.actors.journal.refusals import Refusals
from tests.actors.journal.stored_state import StoredState
from tests.engine.build import (
    NOW_MS,
    TENANT,
    an_id,
    authorize,
    change_card,
    change_programme,
    create_card,
    create_programme,
    declare_balance,
    key,
    load,
    set_cardholder_status,
    wire,
)

HOUR_MS = 3_600_000


class TestMemory(StoredState, Refusals, Ownership):
    @pytest.fixture
    def backend(self) -> MemoryBackend:
        return MemoryBackend()


class TestPostgres(StoredState, Refusals, Ownership):
    @pytest.fixture
    def backend(self, postgres: PostgresBackend) -> PostgresBackend:
        return postgres

    async def test_twin_has_the_columns_of_the_tables(self, backend: PostgresBackend) -> None:
        store = MemoryStore()
        for name in TABLES:
            table: Table = getattr(store, name)
            columns = await backend.session.fetch(
                "SELECT attname AS name FROM pg_attribute"
                " WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
                name,
            )
            assert table.columns == tuple(column["name"] for column in columns), name

    async def test_one_history_leaves_the_same_rows_in_both(self, backend: PostgresBackend) -> None:
        twin = MemoryBackend()
        for each in (backend, twin):
            await commit_history(each)
        for name in TABLES:
            rows = await twin.table(name)
            assert rows, f"the history writes nothing into {name}"
            assert await backend.table(name) == rows, name


async def commit_history(backend: Backend) -> None:
    """Commit a few hundred commands in batches of every size."""
    dice = random.Random(1)
    journal = await backend.open("a")
    owner = Owner(await journal.take(range(256)))
    first = owner.decide(create_programme())
    first.idempotency.append(IdempotencyRow(b"k" * 32, b"f" * 32, 201, b"body", NOW_MS))
    await journal.commit(first)
    history = list(commands(dice))
    now_ms = NOW_MS
    while history:
        batch = [history.pop(0) for _ in range(min(len(history), dice.randint(1, 20)))]
        now_ms += dice.choice((1, HOUR_MS, 30 * HOUR_MS))
        await journal.commit(owner.decide(*batch, now_ms=now_ms))


def commands(dice: random.Random) -> list[Command]:
    """Four cards, two of them on one account, and commands of all kinds on them."""
    issued = [
        create_card(1),
        create_card(2, account_id=create_card(1).account_id, opens_account=False, controls=EVERY_CONTROL),
        create_card(3, 5),
        create_card(4, account_id=None, opens_account=False),
    ]
    history: list[Command] = [*issued]
    for number in range(1, 500):
        card_id = dice.choice(issued).id
        history.append(dice.choice((opening_command, follow_up))(number, card_id, dice))
    return history


def opening_command(number: int, card_id: str, dice: random.Random) -> Command:
    """A command without a reference."""
    scheme = wire(number, network_txn_id=f"N{number}" if number % 2 else None)
    return dice.choice(
        (
            authorize(number, card_id=card_id, amount_minor=dice.randrange(3_000), wire=scheme),
            authorize(number, card_id=card_id, kind="refund", amount_minor=dice.randint(1, 500)),
            declare_balance(number, card_id=card_id, amount_minor=number),
            set_cardholder_status(number, card_id=card_id, active=number % 2 == 0),
            authorize(number, card_id=card_id, cvv2=dice.choice(("match", "mismatch"))),
            authorize(number, card_id=card_id, partial_allowed=True, amount_minor=9_000),
            load(number, card_id=card_id),
            change_card(number, card_id=card_id, state=dice.choice(("active", "suspended"))),
            change_card(number, card_id=card_id, controls=EVERY_CONTROL[: dice.randrange(9)]),
            change_programme(number, programme_id=create_programme().id, name=f"N{number % 7}"),
        )
    )


def follow_up(number: int, card_id: str, dice: random.Random) -> Command:
    """A command that references an earlier message or an unknown one."""
    named = reference_of_message(key(max(1, number - dice.randint(1, 40))))
    about: dict[str, Any] = {"id": an_id(0x80_0000 + number), "command_key": key(0x80_0000 + number)}
    about |= {"card_id": card_id}
    wired: dict[str, Any] = about | {"fingerprint": key(number), "wire": wire(number), "references": (named,)}
    sale: dict[str, Any] = {"amount_minor": dice.randint(1, 900), "currency": "EUR", "mcc": "5411"}
    sale |= {"merchant_name": "Shop", "merchant_country": "IE"}
    paper: dict[str, Any] = {"arn": "1", "sequence": number, "final": dice.random() < 0.6}
    kind = dice.choice(("increment", "reverse", "reverse", "present", "present", "advise", "expire", "sweep"))
    made: dict[str, Callable[[], Command]] = {
        "increment": lambda: authorize(0x80_0000 + number, card_id=card_id, references=(named,)),
        "reverse": lambda: Reverse(**wired, remaining_minor=dice.choice((None, 100))),
        "present": lambda: Present(**wired, **sale, **paper, kind=dice.choice(("purchase", "refund"))),
        "advise": lambda: Advise(**wired, **sale, channel="pos", approved=dice.random() < 0.8),
        "expire": lambda: Expire(**about, tenant_id=TENANT, references=(named,)),
        "sweep": lambda: Expire(**about),
    }
    return made[kind]()
