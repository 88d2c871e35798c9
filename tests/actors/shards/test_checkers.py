"""The checkers of the simulation work (G20): each of these faults, put in on purpose, is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors.journal.contract import Rows
from actors.journal.memory_store import MemoryStore, Table
from actors.shards.decider import Decider
from actors.shards.host import ShardHost
from actors.shards.pending import Pending
from actors.shards.recovery import Recovery
from tests.actors.shards.test_simulation import CHECKS, lived

SEEDS = 600

Patch = pytest.MonkeyPatch


def no_fence(patch: Patch) -> None:
    """Commits of former owners are accepted."""
    patch.setattr(MemoryStore, "check_fence", lambda self, host, rows: None)


def answers_before_commits(patch: Patch) -> None:
    """Replies leave as soon as they are decided."""
    decide = ShardHost._decide

    def hasty(self: ShardHost, pending: Pending) -> None:
        decide(self, pending)
        if pending.reply is not None:
            self.resolve(pending, pending.reply)

    patch.setattr(ShardHost, "_decide", hasty)


def epochs_are_not_renewed(patch: Patch) -> None:
    """After an unknown commit the journal is only asked what it has by now."""

    async def no_renewal(self: Recovery) -> None:
        return None

    patch.setattr(Recovery, "_renew", no_renewal)


def readings_are_not_fenced(patch: Patch) -> None:
    """Whoever believes to be the owner answers from memory."""
    decide = Decider.decide

    def trusting(self: Decider, pending: Pending, rows: Rows, now_ms: int) -> None:
        before = dict(rows.shards)
        written = len(rows.journal)
        decide(self, pending, rows, now_ms)
        if len(rows.journal) == written:
            rows.shards.clear()
            rows.shards |= before

    patch.setattr(Decider, "decide", trusting)


def keys_are_forgotten(patch: Patch) -> None:
    """Idempotency keys are not committed with their effect."""
    patch.setattr(Decider, "_claim", lambda self, pending, rows, now_ms: None)


def command_keys_are_not_unique(patch: Patch) -> None:
    """A command can be executed twice."""
    check = MemoryStore._check

    def forgetful(self: MemoryStore, rows: Rows) -> None:
        self.command_keys.clear()
        check(self, rows)

    patch.setattr(MemoryStore, "_check", forgetful)


def events_are_lost(patch: Patch) -> None:
    """Events are written in a transaction of their own, which does not always come to be."""
    put = Table.put

    def lossy(self: Table, values: Any, changes: tuple[str, ...] = ()) -> None:
        rows = list(values)
        put(self, rows[1:] if self.name == "events" and len(rows) > 8 else rows, changes)

    patch.setattr(Table, "put", lossy)


def memory_is_repaired(patch: Patch) -> None:
    """What a lost commit had changed in memory stays there."""
    patch.setattr(Recovery, "_forget", lambda self, pendings: [pending.undo() for pending in pendings])


def holds_are_doubled(patch: Patch) -> None:
    """Holds are inserted beside the transaction and survive its end."""
    apply = MemoryStore.apply

    def eager(self: MemoryStore, rows: Rows) -> None:
        self.holds.put(rows.holds)
        apply(self, rows)

    patch.setattr(MemoryStore, "apply", eager)


@pytest.mark.parametrize(
    "fault",
    [
        no_fence,
        answers_before_commits,
        epochs_are_not_renewed,
        readings_are_not_fenced,
        keys_are_forgotten,
        command_keys_are_not_unique,
        events_are_lost,
        memory_is_repaired,
        holds_are_doubled,
    ],
    ids=lambda fault: fault.__name__,
)
def test_a_fault_is_found(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    found: list[str] = []
    for seed in range(SEEDS):
        try:
            installation = lived(seed)
            for check in CHECKS:
                check(installation)
        except (AssertionError, ExceptionGroup, KeyError, ValueError) as failure:
            found.append(f"{seed}: {failure!r:.100}")
            break
    assert found
