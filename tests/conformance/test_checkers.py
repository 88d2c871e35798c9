"""The checkers of the wire find each of these deliberate faults (G20).

``tests/actors/shards/test_checkers.py`` checks those of ownership and durability.
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
from actors.network import late_reversals
from actors.network.card_secrets import CardSecrets
from actors.network.cards import CardsById
from actors.network.deadlines import Deadlines
from actors.network.simulated_network import SimulatedNetwork
from actors.shards import committing, deduplication
from actors.vault import Vault
from engine.authorization import authorizing, presentment, reversal
from engine.authorization.effects import Effect, TombstoneSet, UsageCounted
from engine.authorization.follow_up import FollowUpResult
from engine.commands import Authorize
from engine.execution import execute
from engine.iso8583 import identity, respond, translate
from engine.replies import WireAnswer
from tests.actors.network import test_simulated_network_crashes as crashes
from tests.conformance.test_conversations import compare, in_memory
from tests.support.actors.network.fakes import card_lookup
from tests.support.actors.network.rows import add_card
from tests.support.actors.network.simulations import rows, spend
from tests.support.actors.network.support import (
    CARD_ID,
    DEADLINE_MS,
    Harness,
    let_expire,
    request,
    running_edge,
    until,
)

Patch = pytest.MonkeyPatch
SEEDS = 120


# --- found by conversations and the card model --------------------------------------------------------------


def increment_reversal_reverses_the_sale(patch: Patch) -> None:
    """A reversal of an increment reverses the whole sale."""

    def no_increment(command: Any, original: Any, account: Any, programme: Any) -> Any:
        forgetful = msgspec.structs.replace(original, increments={})
        return known(command, forgetful, account, programme)

    known = reversal._reverse_known
    patch.setattr(reversal, "_reverse_known", no_increment)


def early_reversal_leaves_no_tombstone(patch: Patch) -> None:
    """A reversal before its original is forgotten."""

    def forgetful(*arguments: Any) -> FollowUpResult:
        followed = reverse(*arguments)
        kept = tuple(each for each in followed.effects if not isinstance(each, TombstoneSet))
        return msgspec.structs.replace(followed, effects=kept)

    reverse = reversal.reverse
    patch.setattr(execute, "reverse", forgetful)


def presentment_key_is_its_trace(patch: Patch) -> None:
    """A presentment that is submitted again posts again."""
    patch.setattr(
        translate,
        "presentment_key",
        lambda wire, reference: identity.command_key(wire, identity.PRESENTMENT),
    )


def contents_are_not_compared(patch: Patch) -> None:
    """A message under a used identity gets the stored answer, even with other content."""
    for module in (answers, committing, deduplication):
        patch.setattr(module, "fingerprint_of", lambda command: b"")


def answer_contains_a_counter(patch: Patch) -> None:
    """A repeat gets other bytes."""
    numbers = itertools.count()
    answered = respond.answered

    def counting(message: Any, answer: WireAnswer, profile: Any) -> Any:
        response = answered(message, answer, profile)
        response.fields[38] = f"{next(numbers):06d}"
        return response

    patch.setattr(respond, "answered", counting)


def reversal_does_not_uncount(patch: Patch) -> None:
    """A reversal does not lower the amount of the day."""

    def stingy(*arguments: Any) -> tuple[Effect, ...]:
        return tuple(each for each in lowered(*arguments) if not isinstance(each, UsageCounted))

    lowered = reversal._lower_hold
    patch.setattr(reversal, "_lower_hold", stingy)


def force_post_does_not_count(patch: Patch) -> None:
    """A force post does not raise the amount of the day."""

    def uncounted(*arguments: Any) -> FollowUpResult:
        followed = force_post(*arguments)
        kept = tuple(each for each in followed.effects if not isinstance(each, UsageCounted))
        return msgspec.structs.replace(followed, effects=kept)

    force_post = presentment._force_post
    patch.setattr(presentment, "_force_post", uncounted)


def lapsed_hold_counts(patch: Patch) -> None:
    """A hold past its expiry is held until the sweeper closes it."""
    for module in (authorizing, execute):
        patch.setattr(module, "lapse_expired_holds", lambda context, now_ms: ())


@pytest.mark.parametrize(
    "fault",
    [
        increment_reversal_reverses_the_sale,
        early_reversal_leaves_no_tombstone,
        presentment_key_is_its_trace,
        contents_are_not_compared,
        answer_contains_a_counter,
        reversal_does_not_uncount,
        force_post_does_not_count,
        lapsed_hold_counts,
    ],
    ids=lambda fault: fault.__name__,
)
def test_conversations_find_the_fault(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    for seed in range(SEEDS):
        try:
            compare(*in_memory(seed, 12, 2))
        except (AssertionError, KeyError, ValueError, ExceptionGroup):
            return
    pytest.fail("no seed found the fault")


# --- found by the crashes of the network --------------------------------------------------------------------


async def test_crashes_find_bytes_before_the_row(vault: Vault, database_url: str, monkeypatch: Patch) -> None:
    """The network sends the message before it inserts the row."""

    async def send_first(self: SimulatedNetwork, requests: Any) -> Any:
        prepared = await self._prepare_all(requests)
        for each in prepared:
            self._send(each)
        await asyncio.sleep(0.1)
        await self._store.insert_active([each.simulation for each in prepared])

    cards: CardsById = card_lookup()
    monkeypatch.setattr(SimulatedNetwork, "spend", send_first)
    await add_card(database_url, CARD_ID)
    async with running_edge(CardSecrets(vault)) as harness:
        crash = crashes.Crash("after the insert")
        watch = crashes.EdgeWatch(harness, database_url, crash)
        request_ = spend(accepted_ms=crashes.now_ms())
        await crashes.run_until_crash(harness, database_url, cards, [request_], crash)
        row = (await rows(database_url)).get(request_.simulation_id)
        with pytest.raises(AssertionError):
            crashes.check_row("after the insert", row, watch)
        assert watch.unrecorded


# --- found at the edge --------------------------------------------------------------------------------------


def answers_after_the_deadline(patch: Patch) -> None:
    """The edge sends the owner's answer after the deadline."""
    patch.setattr(Deadlines, "_expire_due", lambda self: None)

    def patient(self: Deadlines[Any], item: Any) -> float | None:
        return None if self._due.pop(item, None) is None else 0.0

    patch.setattr(Deadlines, "done", patient)


def no_late_reversal(patch: Patch) -> None:
    """The edge does not reverse a late approval."""
    patch.setattr(late_reversals.LateReversals, "reverse", lambda self, command, approved_minor: None)


def new_key_for_each_late_reversal(patch: Patch) -> None:
    """Late reversals of one authorization have different command keys."""
    of = late_reversals.reversal_of

    def fresh(command: Authorize, approved_minor: int) -> Any:
        key = new_id_beside(command.card_id).replace("-", "")
        return msgspec.structs.replace(of(command, approved_minor), command_key=bytes.fromhex(key))

    patch.setattr(late_reversals, "reversal_of", fresh)


async def late_approvals_are_reversed_once(vault: Vault) -> None:
    """The check: the network gets 91 for an approval after the deadline, and two edges reverse it under one
    key."""
    keys = []
    for _ in range(2):
        async with (
            running_edge(CardSecrets(vault), deadline_ms=DEADLINE_MS) as harness,
            harness.peer() as peer,
        ):
            harness.owners.gate.clear()
            assert (await let_expire(harness, peer, request())).fields[39] == "91"
            harness.owners.gate.set()
            await late_reversal_sent(harness)
            keys += [command.command_key for command in harness.owners.late_reversals]
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def late_reversal_sent(harness: Harness) -> None:
    await until(lambda: harness.owners.late_reversals)


async def test_edge_without_a_fault_passes(vault: Vault) -> None:
    await late_approvals_are_reversed_once(vault)


@pytest.mark.parametrize(
    "fault",
    [answers_after_the_deadline, no_late_reversal, new_key_for_each_late_reversal],
    ids=lambda fault: fault.__name__,
)
async def test_check_finds_the_fault_of_the_edge(
    fault: Callable[[Patch], None], vault: Vault, monkeypatch: Patch
) -> None:
    monkeypatch.setattr("tests.support.actors.network.support.WAIT_SECONDS", 0.5)
    fault(monkeypatch)
    with pytest.raises((AssertionError, TimeoutError)):
        await late_approvals_are_reversed_once(vault)
