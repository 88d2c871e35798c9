"""The journal in PostgreSQL: one connection commits, a small pool does the rest.

A commit is one statement: one round trip, one transaction. It calls the function ``commit_batch_v3``, or is
``commit_approval.sql`` for a single approval. Taking shards uses the pool too: a take waits for another
host's commit and must not delay this host's commits. A failed connection is terminated, not closed: closing a
connection to a frozen server can take forever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

import asyncpg
import structlog

from actors.clock import SystemClock
from actors.database import INDEX_PLANS, read_statements, session_settings
from actors.journal.argument_checks import use_plain_checks
from actors.journal.commit_arguments import approval_arguments, commit_arguments
from actors.journal.contract import (
    BehindError,
    DuplicateError,
    Epochs,
    LoadedCards,
    PastOf,
    RejectedError,
    Rows,
    StaleEpochError,
    StoredReply,
    StoredResponse,
    UnknownOutcomeError,
    Unreadable,
)
from actors.journal.decoding import (
    authorizations_of,
    card_of,
    decoded,
    past_of,
    programme_of,
    stored_commands,
)
from actors.journal.delegated_rows import without_delegated
from actors.journal.event_pairs import without_pairs
from actors.journal.first_reads import first_reads
from actors.primary import PrimaryConnection, accepts_writes, connect
from actors.sqlstates import STATEMENT_FAILURES, keeps_connection, unavailable
from engine.cards.account import Account, place_hold
from engine.cards.authorization import Authorization
from engine.cards.hold import Hold
from engine.ids import is_id
from engine.limits import (
    ACTIVATION_ANSWERS,
    ACTIVATION_HOLDS_STEP,
    COMMIT_TIMEOUT_MS,
    CONFIGURATIONS_KNOWN_MAX,
    NETWORK_GROUP_MAX,
    TOMBSTONE_DAYS,
)
from engine.programmes.programme import Programme
from engine.rules.velocity import Counted

RARE_KINDS: Final = 5
"""Kinds of rows that only ``commit_rare_rows`` writes."""
POOLED: Final = 2
"""Connections beside the committing one: a slow read must not delay a commit."""
CONNECT_SECONDS: Final = 2.0
STATEMENTS: Final = read_statements(Path(__file__).parent / "sql")

_log = structlog.get_logger(__name__)
_POSTGRES_EPOCH_MS: Final = 946_684_800_000


class PostgresJournal:
    """The journal of the host ``incarnation``; see ``actors.journal.contract.Journal``."""

    def __init__(self, dsn: str, incarnation: str, timeout_seconds: float = COMMIT_TIMEOUT_MS / 1000) -> None:
        """Without an answer within ``timeout_seconds`` the outcome of a call is unknown."""
        use_plain_checks()
        self._dsn = dsn
        self._incarnation = incarnation
        self._timeout_seconds = timeout_seconds
        self._open: list[PrimaryConnection] = []
        self._writer: PrimaryConnection | None = None
        self._known: set[str] = set()
        """Digests of configurations that are durable."""
        self._shows_pairs = False
        self._shows_delegated = False
        self._pool: asyncio.LifoQueue[PrimaryConnection | None] = asyncio.LifoQueue()
        for _ in range(POOLED):
            self._pool.put_nowait(None)

    async def register(self, host: str) -> None:
        await self._fetch("register_host", host)

    async def warm(self) -> None:
        """Run the statements of a takeover once on each connection, without any row.

        The first use of a statement on a connection takes ten times as long as the next: the driver reads the
        types, and the server plans. The cards of a lost host must not wait for that."""
        none = commit_arguments(self._incarnation, Rows())
        await self._write(lambda: ("commit_batch", none))
        await self._write(lambda: ("commit_rare_rows", (*none, *[[]] * RARE_KINDS)))
        for statement, arguments in first_reads(self._incarnation):
            await asyncio.gather(*(self._fetch(statement, *arguments) for _ in range(POOLED)))

    async def now_ms(self) -> int:
        """The database's clock, in milliseconds since the epoch."""
        [row] = await self._read("now")
        return int(row["now_ms"])

    async def load_epochs(self, shards: Collection[int]) -> dict[int, int]:
        return {row["shard"]: row["epoch"] for row in await self._read("load_epochs", sorted(shards))}

    async def take(self, shards: Collection[int], expected: Epochs | None = None) -> dict[int, int]:
        rows = await self._fetch("take_shards", self._incarnation, *await self._expected(shards, expected))
        return {row[0]: row[1] for row in rows}

    async def renew(self, shards: Collection[int], expected: Epochs | None = None) -> dict[int, int]:
        while True:
            rows = await self._fetch(
                "renew_shards", self._incarnation, *await self._expected(shards, expected)
            )
            expected = {row[0]: row[1] for row in rows}
            # False if an earlier renewal has raised them and its answer was lost.
            if all(row["renewed"] for row in rows):
                return expected

    async def release(self, shards: Collection[int], expected: Epochs | None = None) -> None:
        await self._fetch("release_shards", self._incarnation, *await self._expected(shards, expected))

    async def _expected(
        self, shards: Collection[int], expected: Epochs | None
    ) -> tuple[list[int], list[int]]:
        """Shards and their expected epochs in two arrays."""
        epochs = await self.load_epochs(shards) if expected is None else expected
        wanted = sorted(shards)
        return wanted, [epochs[shard] for shard in wanted]

    async def commit(self, rows: Rows) -> None:
        def statement_of_rows() -> tuple[str, tuple[Any, ...]]:
            unknown = [each for digest, each in rows.configurations.items() if digest not in self._known]
            rare = (rows.acts, rows.replacements, rows.rules, rows.rule_matches, unknown)
            written = rows if self._shows_delegated else without_delegated(rows)
            written = written if self._shows_pairs else without_pairs(written)
            if any(rare):
                return "commit_rare_rows", (*commit_arguments(self._incarnation, written), *rare)
            if (alone := approval_arguments(self._incarnation, written)) is not None:
                return "commit_approval", tuple(alone)
            return "commit_batch", commit_arguments(self._incarnation, written)

        await self._write(statement_of_rows)
        if len(self._known) > CONFIGURATIONS_KNOWN_MAX:
            self._known.clear()
        self._known.update(rows.configurations)

    async def load_cards(self, card_ids: Iterable[str], known_accounts: Collection[str] = ()) -> LoadedCards:
        ids = list(filter(is_id, card_ids))
        rows = await self._read("load_cards", ids, TOMBSTONE_DAYS)
        read = {row["id"]: decoded(partial(card_of, row)) for row in rows}
        cards = {id_: card for id_, card in read.items() if not isinstance(card, Unreadable)}
        needed = {card.account_id for card in cards.values() if card.account_id}
        accounts = await self.load_accounts(needed.difference(known_accounts))
        return LoadedCards(
            cards, accounts, await self.load_answers(cards), frozenset(read.keys() - cards.keys())
        )

    async def load_accounts(self, account_ids: Iterable[str]) -> dict[str, Account]:
        ids = list(filter(is_id, account_ids))
        if not ids:
            return {}
        accounts = {row["id"]: Account(**row) for row in await self._read("load_accounts", ids)}
        for account in accounts.values():
            account.held_minor = 0
        for number, row in enumerate(await self._read("load_open_holds", ids), 1):
            hold = Hold(
                row["id"], row["card_id"], row["authorization_id"], row["amount_minor"], row["expires_ms"]
            )
            place_hold(accounts[row["account_id"]], hold)
            if number % ACTIVATION_HOLDS_STEP == 0:
                # A large account must not delay the host's other cards.
                await asyncio.sleep(0)
        return accounts

    async def load_authorizations(
        self, references: Iterable[tuple[str, str]]
    ) -> dict[tuple[str, str], list[Authorization] | Unreadable]:
        wanted = list(references)
        cards, names = [card for card, _ in wanted], [name for _, name in wanted]
        rows: dict[tuple[str, str], list[Any]] = {}
        for row in await self._read("load_authorizations", cards, names, NETWORK_GROUP_MAX):
            rows.setdefault((row["card_id"], row["reference"]), []).append(row)
        return {each: decoded(partial(authorizations_of, found)) for each, found in rows.items()}

    async def load_past(self, wanted: Iterable[PastOf]) -> dict[str, list[Counted]]:
        subjects = list(wanted)
        rows = await self._read(
            "load_past",
            [each.subject for each in subjects],
            [each.kind for each in subjects],
            [each.since_ms for each in subjects],
        )
        past: dict[str, list[Counted]] = {each.subject: [] for each in subjects}
        for number, row in enumerate(rows, 1):
            past[row["subject"]] += past_of(row)
            if number % ACTIVATION_HOLDS_STEP == 0:
                # A long past must not delay the host's other cards.
                await asyncio.sleep(0)
        return past

    async def find_due_cards(self, shards: Collection[int], limit: int) -> list[str]:
        return [row["card_id"] for row in await self._read("find_due_cards", list(shards), limit)]

    async def load_programmes(self, programme_ids: Iterable[str]) -> dict[str, Programme | Unreadable]:
        rows = await self._read("load_programmes", list(filter(is_id, programme_ids)))
        return {row["id"]: decoded(partial(programme_of, row)) for row in rows}

    async def load_changed_programmes(
        self, position: str | None, wanted: Callable[[str, int], bool]
    ) -> tuple[str, dict[str, Programme | Unreadable]]:
        rows = await self._read("load_changed_programmes", position)
        changed = [row for row in rows if row["id"] is not None and wanted(row["id"], row["seq"])]
        return rows[0]["position"], {row["id"]: decoded(partial(programme_of, row)) for row in changed}

    async def load_answers(self, actor_ids: Iterable[str]) -> dict[bytes, StoredReply]:
        return stored_commands(
            await self._read("load_answers", list(filter(is_id, actor_ids)), ACTIVATION_ANSWERS)
        )

    async def find(self, command_keys: Iterable[bytes]) -> dict[bytes, StoredReply]:
        return stored_commands(await self._read("find_commands", list(command_keys)))

    async def find_responses(self, key_digests: Iterable[bytes]) -> dict[bytes, StoredResponse]:
        rows = await self._read("find_responses", list(key_digests), SystemClock().now_ms())
        return {
            row["key_digest"]: StoredResponse(row["fingerprint"], row["status"], row["body"]) for row in rows
        }

    async def reset(self) -> None:
        connections, self._open = self._open, []
        for connection in connections:
            connection.terminate()

    async def close(self) -> None:
        await self.reset()

    async def _write(self, prepared: Callable[[], tuple[str, tuple[Any, ...]]]) -> None:
        """Run the statement of ``prepared``, which is called once the connection is ready."""
        statement, seconds = "commit", self._timeout_seconds
        try:
            writer = self._writer
            if writer is None or not accepts_writes(writer):
                writer, seconds = await self._open_writer()
            statement, arguments = prepared()
            # The driver's own timer costs a fraction of ``asyncio.timeout``.
            await writer.fetch(STATEMENTS[statement], *arguments, timeout=seconds)
        except STATEMENT_FAILURES as failure:
            if unavailable(failure):
                await self.reset()
            elif not keeps_connection(failure):
                self._drop(self._writer)
            raise _error(statement, failure) from None
        except Exception as fault:  # noqa: BLE001 - the committer goes on, and the outcome is unknown
            # The text of the exception may hold row values.
            _log.error("commit_fault", error=type(fault).__name__)
            await self.reset()
            raise UnknownOutcomeError(f"{statement}: {type(fault).__name__}") from None

    async def _open_writer(self) -> tuple[PrimaryConnection, float]:
        """A new connection for commits, and the seconds that are left for its first one."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._timeout_seconds
        async with asyncio.timeout_at(end):
            self._drop(self._writer)
            writer = self._writer = await self._connect()
            # Another server can lack rows that the one before had.
            self._known.clear()
            self._shows_pairs = await writer.fetchval(STATEMENTS["shows_pairs"])
            self._shows_delegated = await writer.fetchval(STATEMENTS["shows_delegated"])
        return writer, end - loop.time()

    async def _read(self, statement: str, *arguments: Any) -> list[Any]:
        try:
            return await self._fetch(statement, *arguments)
        except RejectedError as refusal:
            # A read has no rows that could be at fault.
            raise UnknownOutcomeError(f"{statement}: {refusal}") from None

    async def _fetch(self, statement: str, *arguments: Any) -> list[Any]:
        """Run a statement on a pooled connection. A failed connection is terminated."""
        connection = await self._pool.get()
        try:
            async with asyncio.timeout(self._timeout_seconds):
                if connection is None or not accepts_writes(connection):
                    self._drop(connection)
                    connection = await self._connect()
                return await connection.fetch(STATEMENTS[statement], *arguments)
        except STATEMENT_FAILURES as failure:
            if not keeps_connection(failure):
                self._drop(connection)
            raise _error(statement, failure) from None
        finally:
            self._pool.put_nowait(connection)

    def _drop(self, connection: PrimaryConnection | None) -> None:
        """Terminate the connection. Its next user makes a new one."""
        if connection is not None:
            connection.terminate()

    async def _connect(self) -> PrimaryConnection:
        settings = session_settings(self._timeout_seconds) | INDEX_PLANS
        connection = await connect(self._dsn, "stanchion-host", CONNECT_SECONDS, settings)
        self._open = [each for each in self._open if not each.is_closed()] + [connection]
        try:
            await connection.set_type_codec(
                "timestamptz",
                schema="pg_catalog",
                format="tuple",
                encoder=lambda at_ms: ((at_ms - _POSTGRES_EPOCH_MS) * 1000,),
                decoder=lambda micros: micros[0] // 1000 + _POSTGRES_EPOCH_MS,
            )
        except BaseException:
            # No other code refers to this connection yet.
            connection.terminate()
            raise
        return connection


def _error(statement: str, failure: BaseException) -> RejectedError | StaleEpochError | UnknownOutcomeError:
    """The contract's error for a driver's exception, without its text, which can hold row values."""
    if unavailable(failure) or not isinstance(failure, asyncpg.PostgresError):
        return UnknownOutcomeError(
            f"{statement}: {getattr(failure, 'sqlstate', None) or type(failure).__name__}"
        )
    if failure.sqlstate == "ST001":
        return StaleEpochError()
    if failure.sqlstate == "ST002":
        return BehindError()
    if isinstance(failure, asyncpg.UniqueViolationError):
        return DuplicateError(failure.constraint_name or "")
    return RejectedError(f"SQLSTATE {failure.sqlstate}")
