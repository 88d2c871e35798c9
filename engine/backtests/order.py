"""The order of the commands of cards that share an account.

The journal numbers the commands of each card. Those of several cards are in the order of their instants; of
commands in one millisecond, the stored inputs say which version of the account each decision saw.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from engine.backtests.entry import JournalEntry

_NEVER: Final = 2**63
_CONTINUES: Final = 4
_LATER: Final = 5


class AccountVersion(Protocol):
    """The owner of an account, in memory."""

    @property
    def account_version(self) -> int:
        """The version of the account after the last command."""


class CommandQueues:
    """The next commands of each card of an account, in the order of the journal."""

    def __init__(self, card_ids: Iterable[str]) -> None:
        self._waiting: dict[str, deque[JournalEntry]] = {id_: deque() for id_ in card_ids}
        self._incomplete = set(self._waiting)
        self._last: dict[str, int] = dict.fromkeys(self._waiting, 0)
        self._seen: dict[str, int] = {}
        """The account's version that the next command of a card saw."""

    def add(self, card_id: str, entries: Sequence[JournalEntry], complete: bool) -> None:
        """Add the next commands of a card; ``complete`` if no more follow."""
        self._waiting[card_id].extend(entries)
        if entries:
            self._last[card_id] = entries[-1].seq
        if complete:
            self._incomplete.discard(card_id)

    def last_seq(self, card_id: str) -> int:
        """The number of the last command of a card that was added; 0 before the first."""
        return self._last[card_id]

    def starving(self) -> list[str]:
        """The cards whose next command is not known yet."""
        return [id_ for id_ in self._incomplete if not self._waiting[id_]]

    def ready(self, account: AccountVersion) -> Iterator[JournalEntry]:
        """The next commands in order, until the next one of a card is not known yet, or none is left. Give
        each to ``account`` before you take the next one."""
        if len(self._waiting) == 1:
            [queue] = self._waiting.values()
            yield from queue
            queue.clear()
            return
        while not self.starving():
            heads = [queue[0] for queue in self._waiting.values() if queue]
            if not heads:
                return
            chosen = heads[0] if len(heads) == 1 else self._next_of(heads, account.account_version)
            self._seen.pop(chosen.card_id, None)
            yield self._waiting[chosen.card_id].popleft()

    def _next_of(self, heads: list[JournalEntry], version: int) -> JournalEntry:
        ranks = [self._rank(head, version) for head in heads]
        # A decision that saw a later version of the account follows the commands that made it.
        present = [(head.at_ms, rank) for head, rank in zip(heads, ranks, strict=True) if rank != _LATER]
        first = min(present) if present else (min(head.at_ms for head in heads), _LATER)
        equal = [head for head, rank in zip(heads, ranks, strict=True) if (head.at_ms, rank) == first]
        return equal[0] if len(equal) == 1 else min(equal, key=self._due)

    def _due(self, head: JournalEntry) -> int:
        """The version of the account at which ``head`` follows at the latest: the next decision of its card
        in this millisecond saw the version after it."""
        changes = 0
        for entry in self._waiting[head.card_id]:
            if entry.at_ms != head.at_ms:
                break
            seen = entry.account_version
            if seen is not None:
                return seen - changes
            changes += entry.concerns_account
        return _NEVER

    def _rank(self, head: JournalEntry, version: int) -> int:
        """The order in one millisecond: commands that do not concern the account, declines that saw this
        version, approvals that saw it, other changes of the account, replacements, which continue counters,
        and decisions that saw a later version."""
        if head.continues_card:
            return _CONTINUES
        seen = self._seen.get(head.card_id)
        if seen is None:
            seen = head.account_version
            if seen is None:
                return 3 if head.concerns_account else 0
            self._seen[head.card_id] = seen
        if seen > version:
            return _LATER
        return 1 if head.declined else 2
