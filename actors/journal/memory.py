"""The in-memory twin of the PostgreSQL journal, for simulations and for tests without a server.

All hosts share one ``MemoryStore``. A ``Fault`` delays or fails calls in place of networks and servers: a run
depends on its arguments only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Literal

from actors.journal.contract import (
    Epochs,
    LoadedCards,
    PastOf,
    Rows,
    StoredReply,
    StoredResponse,
    Unreadable,
)
from actors.journal.decoding import decoded
from actors.journal.memory_reads import stored
from actors.journal.memory_store import MemoryStore
from engine.cards.account import Account
from engine.cards.authorization import Authorization
from engine.cards.card import Card
from engine.programmes.programme import Programme
from engine.rules.velocity import Counted

Point = Literal["before", "during", "after"]
"""``before`` the call takes effect; ``during`` a commit that has passed the fence, while takers of its shards
wait for it; ``after`` the call took effect and before its caller gets the result."""
Fault = Callable[[Point, str, Rows | None], Awaitable[None]]
"""Called with the point, the method's name and the rows of a commit. May wait or raise a ``JournalError``."""


async def no_fault(point: Point, method: str, rows: Rows | None) -> None:
    """All calls succeed."""


class MemoryJournal:
    """The journal of the host ``incarnation``; see ``actors.journal.contract.Journal``."""

    def __init__(self, store: MemoryStore, incarnation: str, fault: Fault = no_fault) -> None:
        self._store = store
        self._incarnation = incarnation
        self._fault = fault

    async def register(self, host: str) -> None:
        async with self._call("register"):
            self._store.register(host)

    async def load_epochs(self, shards: Collection[int]) -> dict[int, int]:
        async with self._call("load_epochs"):
            return {shard: self._store.epochs[shard] for shard in shards}

    async def take(self, shards: Collection[int], expected: Epochs | None = None) -> dict[int, int]:
        expected = self._expected(shards, expected)
        async with self._call("take"):
            return await self._store.take(self._incarnation, expected)

    async def renew(self, shards: Collection[int], expected: Epochs | None = None) -> dict[int, int]:
        expected, renewed = self._expected(shards, expected), False
        while not renewed:
            async with self._call("renew"):
                expected, renewed = await self._store.renew(self._incarnation, expected)
        return expected

    async def release(self, shards: Collection[int], expected: Epochs | None = None) -> None:
        expected = self._expected(shards, expected)
        async with self._call("release"):
            await self._store.release(self._incarnation, expected)

    async def commit(self, rows: Rows) -> None:
        async with self._call("commit", rows), self._store.committing(self._incarnation):
            self._store.check_fence(self._incarnation, rows)
            await self._fault("during", "commit", rows)
            self._store.apply(rows)

    async def load_cards(self, card_ids: Iterable[str], known_accounts: Collection[str] = ()) -> LoadedCards:
        async with self._call("load_cards"):
            read = {id_: decoded(partial(self._store.card, id_)) for id_ in card_ids}
            unreadable = frozenset(id_ for id_, card in read.items() if isinstance(card, Unreadable))
            cards = {id_: card for id_, card in read.items() if isinstance(card, Card)}
            needed = {card.account_id for card in cards.values() if card.account_id}
            accounts = self._accounts(sorted(needed.difference(known_accounts)))
            return LoadedCards(cards, accounts, self._store.newest_answers(cards), unreadable)

    async def load_authorizations(
        self, references: Iterable[tuple[str, str]]
    ) -> dict[tuple[str, str], list[Authorization] | Unreadable]:
        async with self._call("load_authorizations"):
            read = {each: decoded(partial(self._store.authorizations, *each)) for each in references}
            return {each: found for each, found in read.items() if found}

    async def load_past(self, wanted: Iterable[PastOf]) -> dict[str, list[Counted]]:
        async with self._call("load_past"):
            return {each.subject: self._store.past(each) for each in wanted}

    async def find_due_cards(self, shards: Collection[int], limit: int) -> list[str]:
        async with self._call("find_due_cards"):
            return self._store.due_cards(shards, limit)

    async def load_accounts(self, account_ids: Iterable[str]) -> dict[str, Account]:
        async with self._call("load_accounts"):
            return self._accounts(account_ids)

    async def load_programmes(self, programme_ids: Iterable[str]) -> dict[str, Programme | Unreadable]:
        async with self._call("load_programmes"):
            read = {id_: decoded(partial(self._store.programme, id_)) for id_ in programme_ids}
            return {id_: found for id_, found in read.items() if found is not None}

    async def load_changed_programmes(
        self, position: str | None, wanted: Callable[[str, int], bool]
    ) -> tuple[str, dict[str, Programme | Unreadable]]:
        async with self._call("load_changed_programmes"):
            changes = self._store.programme_changes
            since = len(changes) if position is None else int(position)
            ids = [
                id_
                for id_ in dict.fromkeys(changes[since:])
                if wanted(id_, self._store.programmes.rows[id_]["seq"])
            ]
            read = {id_: decoded(partial(self._store.programme, id_)) for id_ in ids}
            return str(len(changes)), {id_: found for id_, found in read.items() if found is not None}

    async def load_answers(self, actor_ids: Iterable[str]) -> dict[bytes, StoredReply]:
        async with self._call("load_answers"):
            return self._store.newest_answers(actor_ids)

    async def find(self, command_keys: Iterable[bytes]) -> dict[bytes, StoredReply]:
        async with self._call("find"):
            known = self._store.command_keys
            return {key: stored(known[key]) for key in command_keys if key in known}

    async def find_responses(self, key_digests: Iterable[bytes]) -> dict[bytes, StoredResponse]:
        async with self._call("find_responses"):
            rows = [row for digest in key_digests if (row := self._store.response(digest))]
            return {
                row["key_digest"]: StoredResponse(row["fingerprint"], row["status"], row["body"])
                for row in rows
            }

    async def reset(self) -> None:
        """There are no connections."""

    async def close(self) -> None:
        """There are no connections."""

    def _expected(self, shards: Collection[int], expected: Epochs | None) -> dict[int, int]:
        epochs = self._store.epochs if expected is None else expected
        return {shard: epochs[shard] for shard in shards}

    def _accounts(self, account_ids: Iterable[str]) -> dict[str, Account]:
        return {id_: account for id_ in account_ids if (account := self._store.account(id_))}

    @asynccontextmanager
    async def _call(self, method: str, rows: Rows | None = None) -> AsyncIterator[None]:
        await self._fault("before", method, rows)
        yield
        await self._fault("after", method, rows)
