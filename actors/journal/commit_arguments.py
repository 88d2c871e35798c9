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
from engine.ids import Derived, derive

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
    """The parameters of ``commit_approval.sql``; ``None`` if ``rows`` are not those of one plain approval,
    which is approved and held in full. The caller knows that there are no ``RARE`` rows."""
    if not (
        len(rows.journal) == len(rows.holds) == len(rows.transactions) == len(rows.events) == 1
        and len(rows.shards) == len(rows.usage) == len(rows.accounts) == 1
    ) or any(_rows_not_in_approval(rows)):
        return None
    [journaled], [hold], [opened], [event] = rows.journal, rows.holds, rows.transactions, rows.events
    [(shard, epoch)], [usage], [account] = rows.shards.items(), rows.usage.values(), rows.accounts.values()
    version_before = rows.accounts_before[account.id]
    # A new account has no row yet.
    if not (version_before and _is_plain(journaled, usage, account, hold, opened, event)):
        return None
    return [
        *(host, shard, epoch),
        *(journaled.actor_id, journaled.seq, journaled.command_key, journaled.fingerprint),
        *(journaled.command, journaled.inputs, journaled.decision, journaled.reply, journaled.recorded_at),
        *(usage.day, usage.day_count, usage.day_amount_minor, usage.cvv2_failures),
        rows.usage_before[usage.card_id],
        *(account.id, account.posted_minor, account.held_minor, account.version, version_before),
        *(hold.id, hold.amount_minor, hold.expires_at),
        *(opened.id, opened.tenant_id, opened.live, opened.programme_id, opened.currency),
        *(opened.network_txn_id, opened.mcc, opened.rrn),
        event.id,
    ]


def _is_plain(
    journaled: JournalRow,
    usage: UsageRow,
    account: AccountRow,
    hold: HoldRow,
    opened: TransactionRow,
    event: EventRow,
) -> bool:
    """Whether all values that ``commit_approval.sql`` does not get are those that it writes."""
    id_, card_id, at, amount_minor = opened.id, journaled.actor_id, journaled.recorded_at, hold.amount_minor
    owner, hold_id = (opened.tenant_id, opened.live), derive(id_, Derived.HOLD)
    amounts = (amount_minor, amount_minor, amount_minor, 0, 0)
    as_opened = (
        *(id_, *owner, card_id, opened.cardholder_id, opened.programme_id, usage.seq),
        *("purchase", "pending", hold_id, opened.currency, *amounts, None, at, at),
        *(opened.network_txn_id, usage.day, amount_minor, None, opened.mcc, opened.rrn),
    )
    return (
        (journaled.kind, journaled.authorization_id) == ("authorize", id_)
        and (usage.card_id, usage.seq) == (card_id, journaled.seq)
        and hold == (hold_id, account.id, card_id, id_, amount_minor, "held", hold.expires_at)
        and opened == as_opened
        and event == (event.id, *owner, PAIR, at, None, None)
    )


def _or_none(values: Iterable[T]) -> list[T] | None:
    """``None`` for an empty array, which would cost the driver as much as one row."""
    return list(values) or None
