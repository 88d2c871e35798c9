"""The commands in a host that have no reply yet, by the keys under which other commands find them."""

from __future__ import annotations

from actors.shards.counts import HostCounts
from actors.shards.late_reversals import late_reversal_target
from actors.shards.pending import Pending
from engine.commands import Command
from engine.replies import NotExecuted, Reply


class InFlight:
    """One command in flight for each command key and each idempotency key."""

    def __init__(self, counts: HostCounts) -> None:
        self._counts = counts
        self._by_key: dict[bytes, Pending] = {}
        self._late_reversals: dict[bytes, Pending] = {}
        """Late reversals, by the command key of the message that they reverse."""
        self._by_claim: dict[bytes, Pending] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def all(self) -> list[Pending]:
        """All commands in flight."""
        return list(self._by_key.values())

    def same_key(self, command: Command) -> Pending | None:
        """The command in flight that has the command key of ``command``."""
        return self._by_key.get(command.command_key)

    def predecessor(self, command: Command, target: bytes | None) -> Pending | None:
        """The command whose reply must come before ``command`` is executed. A late reversal and the message
        that it reverses (``target``) are executed one after the other: the exchanges that got the approval
        are only known then."""
        if target is not None:
            return self._by_key.get(target)
        return self._late_reversals.get(command.command_key) if self._late_reversals else None

    def claim_holder(self, key_digest: bytes, pending: Pending) -> Pending:
        """The command in flight that holds the idempotency key: the first one, which can be ``pending``
        itself."""
        return self._by_claim.setdefault(key_digest, pending)

    def add(self, pending: Pending, target: bytes | None) -> None:
        """Add a command; ``target`` is the command key that it reverses, if it is a late reversal."""
        self._by_key[pending.command.command_key] = pending
        if target is not None:
            self._late_reversals[target] = pending

    def resolve(self, pending: Pending, reply: Reply) -> None:
        """Give the caller its reply and remove the command."""
        if isinstance(reply, NotExecuted):
            self._counts.refused(reply.reason)
        if self._by_key.get(pending.command.command_key) is pending:
            del self._by_key[pending.command.command_key]
            self._remove_late_reversal(pending)
        claim = pending.submission.claim
        if claim is not None and self._by_claim.get(claim.key_digest) is pending:
            del self._by_claim[claim.key_digest]
        pending.answer(reply)

    def _remove_late_reversal(self, pending: Pending) -> None:
        target = late_reversal_target(pending.command) if self._late_reversals else None
        if target is not None and self._late_reversals.get(target) is pending:
            del self._late_reversals[target]
