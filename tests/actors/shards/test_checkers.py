"""The checkers of the simulation find each of these injected faults (G20)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from typing import Any

import msgspec
import pytest

from actors.cards.answers import RecentAnswers
from actors.journal.contract import Rows
from actors.journal.memory_store import MemoryStore
from actors.journal.memory_tables import Table
from actors.shards.admission import Admission
from actors.shards.decider import Decider
from actors.shards.pending import Pending
from actors.shards.recovery import Recovery
from engine.commands import Authorize, ChangeProgramme
from engine.decision.decide import Decision, authorize
from engine.decision.inputs import Inputs
from engine.execution import execute_programme
from engine.programmes.programme import Programme
from engine.replies import Reply, WireAnswer
from engine.rules.evaluate import RuleSet
from engine.rules.velocity import Change, History
from tests.actors.shards.test_simulation import CHECKS, lived

SEEDS = 600

Patch = pytest.MonkeyPatch


def no_fence(patch: Patch) -> None:
    """The journal accepts commits of former owners."""
    patch.setattr(MemoryStore, "check_fence", lambda self, host, rows: None)


def answers_before_commits(patch: Patch) -> None:
    """Replies leave before their commit."""
    decide = Admission._decide

    def decide_and_reply(self: Admission, pending: Pending) -> None:
        decide(self, pending)
        if pending.reply is not None:
            self._in_flight.resolve(pending, pending.reply)

    patch.setattr(Admission, "_decide", decide_and_reply)


def epochs_are_not_renewed(patch: Patch) -> None:
    """After an unknown commit, recovery reads the journal without renewing the epochs."""

    async def no_renewal(self: Recovery) -> None:
        return None

    patch.setattr(Recovery, "_renew", no_renewal)


def reads_are_not_fenced(patch: Patch) -> None:
    """A former owner answers reads from memory."""
    decide = Decider.decide

    def decide_without_fence(self: Decider, pending: Pending, rows: Rows, now_ms: int) -> None:
        before = dict(rows.shards)
        written = len(rows.journal)
        decide(self, pending, rows, now_ms)
        if len(rows.journal) == written:
            rows.shards.clear()
            rows.shards |= before

    patch.setattr(Decider, "decide", decide_without_fence)


def keys_are_forgotten(patch: Patch) -> None:
    """Idempotency keys are not committed with their effect."""
    patch.setattr(Decider, "_add_idempotency_key", lambda self, pending, rows, now_ms: None)


def command_keys_are_not_unique(patch: Patch) -> None:
    """A command can be executed twice."""
    check = MemoryStore._check

    def forgetful(self: MemoryStore, rows: Rows) -> None:
        self.command_keys.clear()
        check(self, rows)

    patch.setattr(MemoryStore, "_check", forgetful)


def events_are_lost(patch: Patch) -> None:
    """Some events of a transaction are not written."""
    put = Table.put

    def lossy(self: Table, values: Any, changes: tuple[str, ...] = ()) -> None:
        rows = list(values)
        put(self, rows[1:] if self.name == "events" and len(rows) > 8 else rows, changes)

    patch.setattr(Table, "put", lossy)


def tentative_state_is_kept(patch: Patch) -> None:
    """State in memory survives the loss of its commit."""
    patch.setattr(
        Recovery, "_drop", lambda self, pendings: [pending.discard_decision() for pending in pendings]
    )


def holds_are_doubled(patch: Patch) -> None:
    """Holds are inserted outside the transaction and survive its rollback."""
    apply = MemoryStore.apply

    def eager(self: MemoryStore, rows: Rows) -> None:
        self.holds.put(rows.holds)
        apply(self, rows)

    patch.setattr(MemoryStore, "apply", eager)


def decisions_use_unrecorded_inputs(patch: Patch) -> None:
    """A decision depends on a value that is not stored with it."""
    numbers = itertools.count()

    def alternating(command: Authorize, inputs: Inputs, rules: RuleSet) -> Decision:
        decided = authorize(command, inputs, rules)
        return msgspec.structs.replace(decided, risk_score=decided.risk_score + next(numbers) % 2)

    patch.setattr("engine.authorization.authorizing.authorize", alternating)


def velocities_miss_reversals(patch: Patch) -> None:
    """The past of a card follows new purchases only."""
    apply = History.apply

    def forgetful(self: History, changes: Collection[Change]) -> None:
        apply(self, [change for change in changes if change.opened is not None])

    patch.setattr(History, "apply", forgetful)


def credits_are_lost(patch: Patch) -> None:
    """Some transfers have a debit and no credit."""
    put = Table.put

    def lossy(self: Table, values: Any, changes: tuple[str, ...] = ()) -> None:
        rows = list(values)
        put(self, rows[:-1] if self.name == "ledger_entries" and len(rows) > 2 else rows, changes)

    patch.setattr(Table, "put", lossy)


def versions_are_skipped(patch: Patch) -> None:
    """A programme's version increases by two."""
    change = execute_programme.change

    def skipping(
        command: ChangeProgramme, programme: Programme, now_ms: int
    ) -> execute_programme.ProgrammeExecuted:
        config = msgspec.structs.replace(programme.config, version=programme.config.version + 1)
        return change(command, msgspec.structs.replace(programme, config=config), now_ms)

    patch.setattr(execute_programme, "change", skipping)


def remembered_replies_are_altered(patch: Patch) -> None:
    """A remembered reply differs from the reply that was given."""
    remember = RecentAnswers.remember

    def wrong(self: RecentAnswers, command_key: bytes, fingerprint: bytes | None, reply: Reply) -> None:
        if isinstance(reply, WireAnswer):
            reply = msgspec.structs.replace(reply, approved_minor=reply.approved_minor + 1)
        remember(self, command_key, fingerprint, reply)

    patch.setattr(RecentAnswers, "remember", wrong)


@pytest.mark.parametrize(
    "fault",
    [
        decisions_use_unrecorded_inputs,
        velocities_miss_reversals,
        credits_are_lost,
        versions_are_skipped,
        remembered_replies_are_altered,
        no_fence,
        answers_before_commits,
        epochs_are_not_renewed,
        reads_are_not_fenced,
        keys_are_forgotten,
        command_keys_are_not_unique,
        events_are_lost,
        tentative_state_is_kept,
        holds_are_doubled,
    ],
    ids=lambda fault: fault.__name__,
)
def test_checkers_find_the_injected_fault(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
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
