"""The checkers of the wire work (G20): each of these faults, put in on purpose, is found.

``tests/actors/shards/test_checkers.py`` has those of ownership and durability.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from actors.cards import answers
from actors.ids import new_id_beside
from actors.network import undoing
from actors.network.cards import CardsById
from actors.network.custody import CardCustody
from actors.network.deadlines import Deadlines
from actors.network.simulated import SimulatedNetwork
from actors.shards import committing, deduplication
from actors.vault import Vault
from engine.authorization import authorizing, lifecycle, reversal
from engine.authorization.effects import Counted, Effect, TombstoneSet
from engine.commands import Authorize
from engine.execution import execute
from engine.iso8583 import identity, respond, translate
from engine.replies import WireAnswer
from tests.actors.network import test_crashes as crashes
from tests.actors.network.fakes import plastics
from tests.actors.network.simulations import rows, spend
from tests.actors.network.support import Harness, request, running_edge, until
from tests.conformance.test_conversations import in_memory, judge

Patch = pytest.MonkeyPatch
SEEDS = 120


# --- found by conversations and their book ------------------------------------------------------------------


def increments_are_not_told_apart(patch: Patch) -> None:
    """A reversal of an increment reverses its sale."""

    def no_increment(command: Any, original: Any, account: Any, programme: Any) -> Any:
        forgetful = msgspec.structs.replace(original, raised={})
        return known(command, forgetful, account, programme)

    known = reversal._reverse_known
    patch.setattr(reversal, "_reverse_known", no_increment)


def early_reversals_are_forgotten(patch: Patch) -> None:
    """No tombstone is kept."""

    def forgetful(*arguments: Any) -> lifecycle.LifecycleResult:
        followed = reverse(*arguments)
        kept = tuple(each for each in followed.effects if not isinstance(each, TombstoneSet))
        return msgspec.structs.replace(followed, effects=kept)

    reverse = reversal.reverse
    patch.setattr(execute, "reverse", forgetful)


def presentments_are_known_by_their_trace(patch: Patch) -> None:
    """One that is submitted again posts again."""
    patch.setattr(
        translate,
        "presentment_key",
        lambda wire, reference: identity.command_key(wire, identity.PRESENTMENT),
    )


def contents_are_not_compared(patch: Patch) -> None:
    """Whoever uses an identity again gets its answer, whatever he asks."""
    for module in (answers, committing, deduplication):
        patch.setattr(module, "fingerprint_of", lambda command: b"")


def answers_hold_a_counter(patch: Patch) -> None:
    """A repeat gets other bytes."""
    numbers = itertools.count()
    answered = respond.answered

    def counting(message: Any, answer: WireAnswer) -> Any:
        response = answered(message, answer)
        response.fields[38] = f"{next(numbers):06d}"
        return response

    patch.setattr(respond, "answered", counting)


def counters_are_never_given_back(patch: Patch) -> None:
    """A reversal leaves the day's amount as it was."""

    def stingy(*arguments: Any) -> tuple[Effect, ...]:
        return tuple(each for each in lowered(*arguments) if not isinstance(each, Counted))

    lowered = reversal._lowered
    patch.setattr(reversal, "_lowered", stingy)


def force_posts_do_not_count(patch: Patch) -> None:
    """The day's amount does not know of a presentment without an authorization."""

    def uncounted(*arguments: Any) -> lifecycle.LifecycleResult:
        followed = force_post(*arguments)
        kept = tuple(each for each in followed.effects if not isinstance(each, Counted))
        return msgspec.structs.replace(followed, effects=kept)

    force_post = lifecycle._force_post
    patch.setattr(lifecycle, "_force_post", uncounted)


def lapsed_holds_count(patch: Patch) -> None:
    """A hold past its expiry is held until somebody sweeps it."""
    for module in (authorizing, execute):
        patch.setattr(module, "lapse_due", lambda met, now_ms: ())


@pytest.mark.parametrize(
    "fault",
    [
        increments_are_not_told_apart,
        early_reversals_are_forgotten,
        presentments_are_known_by_their_trace,
        contents_are_not_compared,
        answers_hold_a_counter,
        counters_are_never_given_back,
        force_posts_do_not_count,
        lapsed_holds_count,
    ],
    ids=lambda fault: fault.__name__,
)
def test_a_conversation_finds_it(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    for seed in range(SEEDS):
        try:
            judge(*in_memory(seed, 12, 2))
        except (AssertionError, KeyError, ValueError, ExceptionGroup):
            return
    pytest.fail("nobody noticed")


# --- found by the crashes of the network --------------------------------------------------------------------


async def test_bytes_before_the_row_are_found(vault: Vault, database_url: str, monkeypatch: Patch) -> None:
    """A network that speaks first and writes afterwards."""

    async def hasty(self: SimulatedNetwork, requests: Any) -> Any:
        plastic = await self._cards.find_all([each.card_id for each in requests])
        serials = await self._book.take_stans(len(requests))
        prepared = [self._prepare(*each) for each in zip(requests, plastic, serials, strict=True)]
        for each in prepared:
            assert each.message is not None
            self._legs.start(each.opening, each.message)
        await asyncio.sleep(0.1)
        await self._book.open([each.opening for each in prepared])
        return [each.opening for each in prepared]

    cards: CardsById = plastics()
    monkeypatch.setattr(SimulatedNetwork, "_spend", hasty)
    async with running_edge(CardCustody(vault)) as harness:
        death = crashes.Death("after the row")
        watch = crashes.Watch(harness, database_url, death)
        request_ = spend(accepted_ms=crashes.now_ms())
        await crashes.live(harness, database_url, cards, [request_], death)
        row = (await rows(database_url)).get(request_.simulation_id)
        with pytest.raises(AssertionError):
            crashes.the_row_is_true("after the row", row, watch)
        assert watch.unannounced


# --- found at the edge --------------------------------------------------------------------------------------


def told_late(patch: Patch) -> None:
    """An answer goes out whenever it is there."""
    patch.setattr(Deadlines, "_ring", lambda self: None)

    def patient(self: Deadlines[Any], item: Any) -> float | None:
        return None if self._due.pop(item, None) is None else 0.0

    patch.setattr(Deadlines, "done", patient)


def never_undone(patch: Patch) -> None:
    """An approval that nobody heard of stays."""
    patch.setattr(undoing.Undoing, "undo", lambda self, command, approved_minor: None)


def undone_again_and_again(patch: Patch) -> None:
    """Each reversal of the edge's own has a new identity."""
    of = undoing.reversal_of

    def fresh(command: Authorize, approved_minor: int) -> Any:
        key = new_id_beside(command.card_id).replace("-", "")
        return msgspec.structs.replace(of(command, approved_minor), command_key=bytes.fromhex(key))

    patch.setattr(undoing, "reversal_of", fresh)


async def late_approvals_are_reversed_once(vault: Vault) -> None:
    """The check: an approval after the deadline is not told, and whichever edge it was undoes it under one
    key."""
    keys = []
    for _ in range(2):
        async with running_edge(CardCustody(vault), deadline_ms=20) as harness, harness.peer() as peer:
            harness.owners.gate.clear()
            peer.say(request())
            assert (await peer.hear()).fields[39] == "91"
            harness.owners.gate.set()
            await has_undone(harness)
            keys += [command.command_key for command in harness.owners.undone]
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def has_undone(harness: Harness) -> None:
    await until(lambda: harness.owners.undone)


async def test_the_edge_without_a_fault(vault: Vault) -> None:
    await late_approvals_are_reversed_once(vault)


@pytest.mark.parametrize(
    "fault", [told_late, never_undone, undone_again_and_again], ids=lambda fault: fault.__name__
)
async def test_the_edge_is_checked(fault: Callable[[Patch], None], vault: Vault, monkeypatch: Patch) -> None:
    monkeypatch.setattr("tests.actors.network.support.WAIT_SECONDS", 0.5)
    fault(monkeypatch)
    with pytest.raises((AssertionError, TimeoutError)):
        await late_approvals_are_reversed_once(vault)
