"""Answers to networks at two edges agree with the holds, under faults of hosts."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable

import pytest

from actors.host_queue import PendingCommand
from actors.network.exchange import Exchange, MessageCommand
from actors.network.late_reversals import LateReversals
from actors.network.open_commands import OpenCommands
from actors.router import Router
from engine.iso8583.respond import approves
from engine.replies import Reply, WireAnswer
from tests.actors.shards.test_simulation import CHAOS, books_balance, one_order
from tests.support.actors.shards.virtual_time import run
from tests.support.actors.shards.wire_simulation import WIRE_CHECKS, WireInstallation

COUNT = int(os.environ.get("STANCHION_TEST_SEEDS", "2000" if CHAOS else "24"))
SLICES = 2
SEEDS = 300
"""Number of seeds within which each fault must be found, and each kind of outcome must occur."""


def lived_on_wire(seed: int) -> WireInstallation:
    """Run the simulation of one seed."""

    async def main() -> WireInstallation:
        installation = WireInstallation(seed)
        await installation.live()
        return installation

    return run(main())


@pytest.mark.parametrize("slice_", range(SLICES))
def test_wire_answers_and_books_agree_under_faults(slice_: int) -> None:
    for seed in range(slice_, COUNT, SLICES):
        try:
            installation = lived_on_wire(seed)
            for check in (*WIRE_CHECKS, one_order, books_balance):
                check(installation)
        except BaseException as failure:
            failure.add_note(f"seed {seed}")
            raise


def test_simulations_cover_every_kind_of_outcome() -> None:
    wanted = ("approved", "refused in time", "both", "two edges", "late", "unknown", "stood", "reversed")
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        if all(seen[name] for name in (*wanted, "delegated")):
            return
        installation = lived_on_wire(seed)
        for record in installation.wire_records:
            codes = {code for _, code in record.answers}
            seen["approved"] += any(map(approves, codes))
            seen["refused in time"] += "91" in codes
            seen["both"] += "91" in codes and any(map(approves, codes))
            seen["two edges"] += len({edge for edge, _ in record.answers}) == 2
        for edge in installation.edges:
            counts = edge.respondent.late_reversals.counts
            seen["late"] += counts.late_approvals
            seen["unknown"] += counts.unknown_outcomes
            seen["stood"] += counts.no_action
            seen["reversed"] += counts.done
        seen["delegated"] += installation.delegated
    pytest.fail(f"{SEEDS} seeds show only {dict(seen)}")


# --- injected faults that the checks must find -------------------------------------------------------------


def router_forgets_earlier_owners(patch: pytest.MonkeyPatch) -> None:
    """The refusal of a new owner counts as proof, although an earlier owner may have executed the command."""

    def finish_without_doubt(self: Router, pending: PendingCommand, reply: Reply) -> None:
        pending.doubtful = False
        finish(self, pending, reply)

    finish = Router.finish
    patch.setattr(Router, "finish", finish_without_doubt)


def stored_approvals_are_ignored(patch: pytest.MonkeyPatch) -> None:
    """A late approval from the journal is not reversed."""

    def blind(
        self: OpenCommands, exchange: Exchange, command: MessageCommand, future: asyncio.Future[Reply]
    ) -> None:
        answered = not future.cancelled() and future.exception() is None
        reply = future.result() if answered else None
        if isinstance(reply, WireAnswer) and reply.replayed and exchange not in self._exchanges:
            self.pending.discard(future)
            future = asyncio.Future()
            future.set_result(WireAnswer("51", ""))
        replied(self, exchange, command, future)

    replied = OpenCommands._replied
    patch.setattr(OpenCommands, "_replied", blind)


def owner_reverses_standing_approvals(patch: pytest.MonkeyPatch) -> None:
    """A late reversal is executed although another exchange got the approval."""
    patch.setattr("actors.shards.decider.late_note", lambda *about: None)


def repeats_are_not_recorded(patch: pytest.MonkeyPatch) -> None:
    """The next owner does not know which exchanges got an approval."""
    patch.setattr("actors.shards.decider.repeat_note", lambda *about: None)


def late_replies_are_dropped(patch: pytest.MonkeyPatch) -> None:
    """An edge reverses no late approval."""
    patch.setattr(LateReversals, "reverse_if_late", lambda self, open_command: None)


@pytest.mark.parametrize(
    "fault",
    [
        router_forgets_earlier_owners,
        stored_approvals_are_ignored,
        owner_reverses_standing_approvals,
        repeats_are_not_recorded,
        late_replies_are_dropped,
    ],
    ids=lambda fault: fault.__name__,
)
def test_checks_find_the_injected_fault(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    for seed in range(SEEDS):
        installation = lived_on_wire(seed)
        try:
            for check in WIRE_CHECKS:
                check(installation)
        except AssertionError:
            return
    pytest.fail(f"{SEEDS} seeds do not show the fault")
