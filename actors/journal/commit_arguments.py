"""The arguments of ``commit_batch_v3`` (``sql/functions``) and of ``commit_approval.sql`` from the rows of a
commit."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

from actors.journal.contract import Rows
from actors.journal.rows import (
    AccountRow,
    CardRow,
    DeclaredRow,
    EntryRow,
    EventRow,
    HoldRow,
    IdempotencyRow,
    JournalRow,
    OutageRow,
    ProgrammeRow,
    StandInRow,
    TombstoneRow,
    TransactionRow,
    UsageRow,
)
from engine.authorization.compact_events import PAIR

T = TypeVar("T")

IN_APPROVAL: Final = frozenset(
    {
        *("shards", "journal", "usage", "usage_before", "accounts", "accounts_before"),
        *("holds", "transactions", "events"),
    }
)
"""Attributes of ``Rows`` that ``commit_approval.sql`` writes."""
RARE: Final = frozenset(("acts", "replacements", "rules", "rule_matches", "configurations"))
"""Attributes of ``Rows`` that ``commit_rare_rows.sql`` writes; of configurations only those that are not
known to be durable."""
EVENT_VALUES: Final = 6
"""Fields of an event without ``txid``, which the database fills."""
_NOT_IN_APPROVAL: Final = tuple(sorted(set(vars(Rows())) - IN_APPROVAL - RARE))
_rows_not_in_approval: Final = attrgetter(*_NOT_IN_APPROVAL)


class CommitArguments(NamedTuple):
    """Arguments of ``commit_batch_v3`` in their order; ``None`` in place of an empty array."""

    host: str
    shards: list[int]
    epochs: list[int]
    journal: list[JournalRow]
    usage: list[UsageRow]
    usage_seqs: list[int]
    accounts: list[AccountRow] | None
    account_versions: list[int] | None
    holds: list[HoldRow] | None
    changed_holds: list[HoldRow] | None
    transactions: list[TransactionRow]
    changed_transactions: list[TransactionRow] | None
    lapsed_holds: list[str] | None
    lapsed_authorizations: list[str] | None
    lapsed_at: list[int] | None
    tombstones: list[TombstoneRow] | None
    entries: list[EntryRow] | None
    events: list[EventRow]
    idempotency: list[IdempotencyRow] | None
    cards: list[CardRow] | None
    declared: list[DeclaredRow] | None
    programmes: list[ProgrammeRow] | None
    outages: list[OutageRow] | None
    stand_ins: list[StandInRow] | None


def commit_arguments(host: str, rows: Rows) -> CommitArguments:
    """The arguments that write ``rows`` for ``host``."""
    return CommitArguments(
        host=host,
        shards=list(rows.shards),
        epochs=list(rows.shards.values()),
        journal=rows.journal,
        usage=list(rows.usage.values()),
        usage_seqs=list(rows.usage_before.values()),
        accounts=_or_none(rows.accounts.values()),
        account_versions=_or_none(rows.accounts_before.values()),
        holds=_or_none(rows.holds),
        changed_holds=_or_none(rows.changed_holds.values()),
        transactions=rows.transactions,
        changed_transactions=_or_none(rows.changed_transactions.values()),
        lapsed_holds=_or_none(rows.lapsed),
        lapsed_authorizations=_or_none(authorization_id for authorization_id, _ in rows.lapsed.values()),
        lapsed_at=_or_none(lapsed_ms for _, lapsed_ms in rows.lapsed.values()),
        tombstones=_or_none(rows.tombstones),
        entries=_or_none(rows.entries),
        events=rows.events,
        idempotency=_or_none(rows.idempotency),
        cards=_or_none(rows.cards.values()),
        declared=_or_none(rows.declared.values()),
        programmes=_or_none(rows.programmes.values()),
        outages=_or_none(rows.outages.values()),
        stand_ins=_or_none(rows.stand_ins),
    )


def approval_arguments(host: str, rows: Rows) -> list[Any] | None:
    """The parameters of ``commit_approval.sql``; ``None`` if ``rows`` are not those of one approval with a
    new hold and the row of two events. The caller knows that there are no ``RARE`` rows."""
    if (
        len(rows.journal) != 1
        or len(rows.holds) != 1
        or [event.type for event in rows.events] != [PAIR]
        or not len(rows.shards) == len(rows.usage) == len(rows.accounts) == len(rows.transactions) == 1
        or any(_rows_not_in_approval(rows))
    ):
        return None
    [(shard, epoch)] = rows.shards.items()
    [(card_id, usage)] = rows.usage.items()
    [(account_id, account)] = rows.accounts.items()
    [transaction] = rows.transactions
    version_before = rows.accounts_before[account_id]
    if not version_before:
        # A new account has no row yet.
        return None
    return [
        *(host, shard, epoch),
        *rows.journal[0],
        *usage,
        rows.usage_before[card_id],
        *(account_id, account.posted_minor, account.held_minor, account.version, version_before),
        *rows.holds[0],
        *transaction,
        *rows.events[0][:EVENT_VALUES],
    ]


def _or_none(values: Iterable[T]) -> list[T] | None:
    """``None`` for an empty array, which would cost the driver as much as one row."""
    return list(values) or None
